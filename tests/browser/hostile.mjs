// Runs the hostile app of tests/hostile: first without walls, in the twin, then in the program's frame, then at its
// frame's address opened in a tab. Reports for each attempt how it got out.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import puppeteer from "puppeteer-core";
import "../hostile/app/attempts.js";
import { chromium } from "playwright-core";
import { CHROMIUM, CHROMIUM_ARGS, main, until } from "./browser.mjs";

const pause = (ms) => new Promise((done) => setTimeout(done, ms));
/** How long silence is listened to after the last attempt. In the twin, all is heard in a fraction of it. */
const SILENCE_MS = 5_000;
/** How long one attempt alone has, before the next. */
const EACH_MS = 500;

/** Chromium by Playwright, Firefox by Puppeteer over WebDriver BiDi, behind the few calls that this script needs. */
async function launch(browser) {
  if (browser === "firefox") {
    const firefox = await puppeteer.launch({
      browser: "firefox",
      executablePath: process.env.CHRYSALIS_TEST_FIREFOX ?? "/usr/bin/firefox-esr",
      headless: true,
      extraPrefsFirefox: {
        // The test stands in for a person's clicks; nothing else of the browser's own is changed that keeps pages in.
        "dom.disable_open_during_load": false,
        "network.captive-portal-service.enabled": false,
        "network.connectivity-service.enabled": false,
        "browser.safebrowsing.downloads.remote.enabled": false,
      },
    });
    return {
      version: () => firefox.version(),
      newPage: () => firefox.newPage(),
      pages: () => firefox.pages(),
      permit: async () => {},
      close: () => firefox.close(),
      kill: () => firefox.process()?.kill("SIGKILL"),
    };
  }
  // With a profile of its own, not a private window, in which Chromium pre-connects less than it does for people.
  const folder = await mkdtemp(join(tmpdir(), "chrysalis-hostile-"));
  const context = await chromium.launchPersistentContext(folder, {
    executablePath: CHROMIUM,
    headless: true,
    geolocation: { latitude: 1, longitude: 1 },
    args: [
      ...CHROMIUM_ARGS.filter((flag) => flag !== "--disable-quic"),
      "--use-fake-device-for-media-stream",
      "--use-fake-ui-for-media-stream",
    ],
  });
  const permissions = ["geolocation", "notifications", "clipboard-read", "camera", "microphone"];
  return {
    version: async () =>
      context.browser()?.version() ?? (await context.pages()[0]?.evaluate(() => navigator.userAgent)),
    newPage: () => context.newPage(),
    pages: async () => context.pages(),
    permit: (origin) => context.grantPermissions(permissions, { origin }),
    close: async () => {
      await context.close();
      await rm(folder, { recursive: true, force: true });
    },
    kill: () => {},
  };
}

/** What was heard and what the pages say they won, by attempt. */
class Ledger {
  found = {};
  constructor(base) {
    this.base = base;
  }
  async forget() {
    this.found = {};
    await fetch(`${this.base}/forget`, { method: "POST" });
  }
  async listen() {
    const heard = await (await fetch(`${this.base}/heard`)).json();
    this.found = { ...heard, ...this.found };
    return this.found;
  }
  /** Reads `__won` of the app's documents; one that has gone has nothing to say. */
  async ask(pages) {
    const frames = pages.flatMap((page) => page.frames()).filter((frame) => /\/(frame|app)\//.test(frame.url()));
    const all = await Promise.all(frames.map((frame) => soon(() => frame.evaluate(() => globalThis.__won ?? []), [])));
    for (const line of all.flat()) {
      const [name, how] = line.split(/: (.*)/s);
      this.found[name] ??= `won ${how}`;
    }
  }
}

/** The value, or `otherwise` when the page is gone or does not answer within two seconds. */
function soon(ask, otherwise) {
  const asked = (async () => ask())().catch(() => otherwise);
  return Promise.race([asked, pause(2_000).then(() => otherwise)]);
}

function accept(page) {
  page.on("dialog", (dialog) => dialog.accept("secret").catch(() => {}));
  return page;
}

/** Closes windows that attempts have opened. */
async function tidy(browser, keep) {
  for (const page of await browser.pages()) {
    if (!keep.includes(page)) await soon(() => page.close(), null);
  }
}

/** All attempts in the twin. */
async function unprotected(browser, ledger, config, here) {
  const page = accept(await browser.newPage());
  await browser.permit(config.twin);
  await ledger.forget();
  await page.goto(`${config.twin}/`);
  const frame = await until("the twin's frame", () => page.frames().find((one) => one.url().includes("/app/")));
  const together = here.filter(({ alone }) => !alone).map(({ name }) => name);
  const deadline = Date.now() + 20_000;
  while (Date.now() < deadline && together.some((name) => !ledger.found[name])) {
    await pause(200);
    await ledger.listen();
    await ledger.ask([page]);
  }
  const errors = await soon(() => frame.evaluate(() => globalThis.__errors), []);
  await page.close();
  for (const { name } of here.filter(({ alone }) => alone)) {
    const own = accept(await browser.newPage());
    // Not waited for: many of these pages never finish loading.
    soon(() => own.goto(`${config.twin}/?only=${name}`), null);
    const end = Date.now() + 8_000;
    while (!ledger.found[name] && Date.now() < end) {
      await pause(50);
      await ledger.listen();
      await ledger.ask([own]);
    }
    await tidy(browser, [own]);
    await soon(() => own.close(), null);
    await browser.newPage();
  }
  return { found: ledger.found, errors };
}

async function signIn(page, config) {
  await page.goto(config.url);
  await page.evaluate(
    async (token) => {
      const send = (method, path, body) =>
        fetch(path, {
          method,
          headers: { "content-type": "application/json", "X-Chrysalis-Request": "1" },
          body: JSON.stringify(body),
        });
      await send("POST", "/v1/auth/setup", { token, username: "Ada", password: "correct horse battery" });
      await send("POST", "/v1/auth/login", { username: "Ada", password: "correct horse battery" });
      await send("PUT", "/v1/settings", { onboarded: true });
    },
    new URL(config.setup).hash.replace("#setup=", ""),
  );
}

async function open(page, config, app) {
  await page.goto("about:blank");
  await page.goto(`${config.url}/#/app/${app}`);
  const frame = () => page.frames().find((one) => one.url().includes("/frame/"));
  await until(`the page of ${app}`, () =>
    soon(() => frame()?.evaluate(() => document.readyState !== "loading"), false),
  );
  return frame();
}

/** All attempts in the program: in the frame, or in a tab of its own at the frame's address. */
async function protectedRun(browser, ledger, config, alone, inTab) {
  const victim = accept(await browser.newPage());
  const other = new URL((await open(victim, config, "victim")).url()).pathname;
  const ended = [];
  const left = [];
  const missed = [];
  let place = null;
  /** Opens the app anew, which also runs all attempts that can run beside each other, without another app's address. */
  const fresh = async () => {
    await tidy(browser, [victim]);
    const page = accept(await browser.newPage());
    const address = (await open(page, config, "hostile")).url();
    const tab = inTab ? accept(await browser.newPage()) : null;
    // Looked up anew each time: the frame's process changes with its document.
    const frame = () => (tab ?? page).frames().find((one) => one.url().startsWith(address));
    const go = async (query) => {
      const to = `index.html?${query}#other=${other}`;
      if (tab) await soon(() => tab.goto(`${address}${to}`), null);
      else await soon(() => frame()?.evaluate((url) => location.replace(url), to), null);
    };
    place = { page, tab, shown: tab ?? page, frame, go };
  };
  const says = (ask) => soon(() => place.frame()?.evaluate(ask), undefined);
  await ledger.forget();
  await fresh();
  await place.go("again");
  await pause(SILENCE_MS);
  await ledger.ask([place.shown]);
  await ledger.listen();
  const errors = (await says(() => globalThis.__errors)) ?? ["the page is gone"];
  const tried = (await says(() => document.getElementById("state").textContent)) ?? "nothing";
  for (const name of alone) {
    await place.go(`only=${name}`);
    const begun = async () => (await says(() => location.search)) === `?only=${name}`;
    let seen = await until(name, begun, 1_500).catch(() => false);
    await pause(EACH_MS);
    seen ||= await begun();
    const pages = await browser.pages();
    await ledger.ask(pages.filter((one) => one !== victim));
    for (const extra of pages.filter(
      (one) => ![victim, place.page, place.tab].includes(one) && one.url() !== "about:blank",
    )) {
      ledger.found[name] ??= `opened ${extra.url()}`;
    }
    const there = (await says(() => location.pathname))?.startsWith("/frame/") === true;
    // What the wall did to a page may be the end of it, in its own window: an error page, or a process that is gone.
    if (!there) ended.push(name);
    if (!seen && there) missed.push(name);
    if (!place.page.url().startsWith(config.url)) left.push(`${name}: the window is at ${place.page.url()}`);
    if (there) await tidy(browser, [victim, place.page, place.tab].filter(Boolean));
    else {
      await ledger.listen();
      await fresh();
    }
  }
  await pause(SILENCE_MS);
  await ledger.listen();
  await tidy(browser, []);
  return { found: ledger.found, left, ended, missed, errors, tried };
}

/** A part of the run in a browser of its own: one remembers names that it has looked up. */
async function part(config, use) {
  const browser = await launch(config.browser);
  try {
    await browser.newPage();
    return await use(browser, new Ledger(config.twin));
  } finally {
    await soon(() => browser.close(), null);
    browser.kill();
  }
}

await main(async (config) => {
  const here = globalThis.ATTEMPTS.filter(({ only }) => !only || only.includes(config.browser));
  const alone = here.filter((one) => one.alone).map(({ name }) => name);
  const result = { names: here.map(({ name }) => name), alone };
  // `only` is for whoever works on the attempts: the twin alone, or the program alone.
  if (config.only !== "program") {
    result.twin = await part(config, (browser, ledger) => unprotected(browser, ledger, config, here));
  }
  if (config.only === "twin") return result;
  for (const [name, inTab] of [
    ["framed", false],
    ["tab", true],
  ]) {
    result[name] = await part(config, async (browser, ledger) => {
      result.version = await browser.version();
      await signIn(await browser.newPage(), config);
      await browser.permit(config.url);
      return protectedRun(browser, ledger, config, alone, inTab);
    });
  }
  return result;
});
