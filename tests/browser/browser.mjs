// What the scripts share: the configuration from the test, the browsers, the first start done by a person's means.

import assert from "node:assert/strict";
import { join } from "node:path";
import { chromium } from "playwright-core";

export const CHROMIUM = process.env.CHRYSALIS_TEST_CHROMIUM ?? "/usr/bin/chromium";

/** Nothing of the browser's own goes out, so that what is heard comes from the page. Root cannot use its sandbox. */
export const CHROMIUM_ARGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** The test's configuration: one JSON value on standard input. */
export async function configuration() {
  let text = "";
  for await (const part of process.stdin) text += part;
  return JSON.parse(text);
}

/** Runs the script; its value goes back to the test as the last line. */
export async function main(script) {
  try {
    const value = await script(await configuration());
    console.log(`result: ${JSON.stringify(value ?? null)}`);
  } catch (error) {
    console.error(error);
    process.exitCode = 1;
  }
  // A browser that does not end must not keep the test waiting.
  process.exit();
}

/** Chromium with a profile of its own, gone with it. */
export async function withChromium(args, use) {
  const browser = await chromium.launch({
    executablePath: CHROMIUM,
    headless: true,
    args: [...CHROMIUM_ARGS, ...args],
  });
  try {
    return await use(browser);
  } finally {
    await browser.close();
  }
}

/** Asks until the answer is true. Nothing here depends on how long that takes, up to the deadline. */
export async function until(what, ask, ms = 30_000) {
  const deadline = Date.now() + ms;
  for (;;) {
    const answer = await ask();
    if (answer) return answer;
    if (Date.now() > deadline) assert.fail(`${what}: not within ${ms / 1000} s`);
    await new Promise((done) => setTimeout(done, 20));
  }
}

const VIEWS = [
  ["wide-light", { width: 1280, height: 800 }, "light"],
  ["wide-dark", { width: 1280, height: 800 }, "dark"],
  ["phone-light", { width: 390, height: 844 }, "light"],
  ["phone-dark", { width: 390, height: 844 }, "dark"],
];

/** Pictures of what is shown, wide and as on a phone, light and dark. Leaves the page wide and light. */
export async function pictures(page, folder, name) {
  for (const [view, size, colorScheme] of VIEWS) {
    await page.setViewportSize(size);
    await page.emulateMedia({ colorScheme });
    await page.screenshot({ path: join(folder, `${name}-${view}.png`), animations: "disabled" });
  }
  await page.setViewportSize(VIEWS[0][1]);
  await page.emulateMedia({ colorScheme: "light" });
}

/** Opens the setup address and chooses a name and password. */
export async function setUp(page, address, look = async () => {}) {
  await page.goto(address);
  await page.getByLabel("Name").fill("Ada");
  await page.getByLabel("Password").fill("correct horse battery");
  await look("setup");
  await page.getByRole("button", { name: "Set name and password" }).click();
  await page.getByRole("heading", { name: "Which model should answer?" }).waitFor();
}

/** The second step: the address of a model server, and one of its models by name. */
export async function chooseModel(page, address, model, look = async () => {}) {
  await page
    .getByText(/Found on this computer|No model server was found/)
    .first()
    .waitFor();
  await look("model");
  await connect(page, address);
  const models = page.getByLabel("Model to use");
  await models.waitFor();
  const value = await models.locator("option", { hasText: model }).first().getAttribute("value");
  await models.selectOption(value);
  await look("connected");
  await page.getByRole("button", { name: "Continue" }).click();
}

/** A server by its address, wherever connections are added. */
export async function connect(page, address, name = null) {
  await until("the form opens", async () => {
    if (await page.getByLabel("Address", { exact: true }).isVisible()) return true;
    await page.getByRole("button", { name: "Enter an address" }).click();
    return page.getByLabel("Address", { exact: true }).isVisible();
  });
  await page.getByLabel("Address", { exact: true }).fill(address);
  if (name !== null) await page.getByLabel("Name", { exact: true }).fill(name);
  await page.getByRole("button", { name: "Connect", exact: true }).click();
}

/** The third step: Chat from the box, read and added. Returns the frame it opens in. */
export async function addChat(page, look = async () => {}) {
  await page.getByRole("button", { name: "Look at Chat" }).click();
  await page.getByText("It asks for").waitFor();
  await look("review");
  await page.getByRole("button", { name: /^Add Chat and allow/ }).click();
  const chat = page.frameLocator("iframe.page");
  await chat.getByLabel("Write a message").or(chat.getByPlaceholder("Write a message")).first().waitFor();
  return chat;
}
