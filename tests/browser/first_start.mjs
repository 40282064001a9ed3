// From nothing to a streamed answer, as a person does it: setup address, model server, Chat, a question.

import assert from "node:assert/strict";
import { addChat, chooseModel, main, pictures, setUp, until, withChromium } from "./browser.mjs";

const ANSWER = "article:not(.mine) .markdown";

/** What Chromium writes to its console in a run without fault. */
const EXPECTED = [
  // Whether someone is signed in is asked, and the answer is no.
  /status of 401 .*\/v1\/(me|settings)$/,
  // Chat asks for the stream of an answer before the plugin has begun it.
  /status of 404 .*\/v1\/apps\/chat\/__streams\//,
  // For browsers that know it (design: all of the headers, always).
  /Unrecognized Content-Security-Policy directive 'webrtc'/,
];

/** Collects what the last answer shows, whenever it is looked at. */
function watch(chat) {
  const last = chat.locator(ANSWER).last();
  return async () => ((await last.count()) === 0 ? "" : (await last.innerText()).trim());
}

async function ask(chat, text) {
  // llmock repeats all that it was sent, so every question has a conversation of its own.
  await chat.getByRole("button", { name: "New conversation" }).click();
  await until("an empty conversation", async () => (await chat.locator("article").count()) === 0);
  const field = chat.locator("form.composer textarea");
  await field.click();
  await field.pressSequentially(text.slice(0, 20));
  await field.fill(text);
  await field.press("Enter");
}

const finished = (chat) => async () => (await chat.locator("article.pending").count()) === 0;

/** A growing answer is always the beginning of the whole one, and was seen growing. */
async function grows(chat, whole, part) {
  const shown = watch(chat);
  await until(`a part of the answer ${part}`, async () => {
    const text = await shown();
    assert.ok(whole.startsWith(text), `not a beginning of the answer: ${text}`);
    return text.length > 0 && text.length < whole.length;
  });
  return shown;
}

async function withLlmock(page, config, problems) {
  const look = (name) => pictures(page, config.pictures, name);
  await setUp(page, config.setup, look);
  await chooseModel(page, config.model, "gpt-4o-mini", look);
  const chat = await addChat(page, look);
  await look("chat-empty");

  // The answer grows, and is whole in the end.
  // llmock repeats the first 120 characters of what it was asked, word by word.
  const words = (word) => `${word}${" a b c d e".repeat(11)}`;
  const first = words("rain");
  await ask(chat, first);
  let shown = await grows(chat, `Hello! You said: ${first}`, "was seen");
  await look("chat-growing");
  await until("the whole answer", finished(chat), 60_000);
  assert.equal(await shown(), `Hello! You said: ${first}`);
  await look("chat-whole");

  // A page that reloads in the middle loses nothing.
  const second = words("sun");
  await ask(chat, second);
  const whole = `Hello! You said: ${second}`;
  shown = await grows(chat, whole, "before the reload");
  const before = await shown();
  const frame = page.frames().find((one) => one.url().includes("/frame/"));
  await frame.evaluate(() => location.reload());
  await until("the page comes back", async () => (await shown().catch(() => "")).length >= before.length);
  const after = await shown();
  assert.ok(whole.startsWith(after) && after.length < whole.length, "the answer still grows after the reload");
  await until("the whole second answer", async () => (await shown()) === whole, 90_000);
  await until("it is finished", finished(chat));
  assert.equal(await chat.locator("article").count(), 2, "nothing is lost and nothing is there twice");

  // Stop keeps what had arrived.
  await ask(chat, words("snow"));
  const third = `Hello! You said: ${words("snow")}`;
  await grows(chat, third, "before the stop");
  await chat.getByRole("button", { name: "Stop", exact: true }).click();
  await chat.getByText("Stopped. What had arrived is kept.").waitFor();
  const kept = await watch(chat)();
  assert.ok(kept.startsWith("Hello!") && third.startsWith(kept) && kept.length < third.length, kept);
  await look("chat-stopped");
  await page.reload();
  await until("the stopped answer is kept", async () => (await watch(chat)().catch(() => "")) === kept);

  await page.getByRole("button", { name: /Back/ }).click();
  await page.getByRole("heading", { name: "Apps" }).waitFor();
  await look("home");
  for (const [screen, heading] of [
    ["Settings", "Settings"],
    ["Activity", "Activity"],
  ]) {
    await page.getByRole("link", { name: screen }).click();
    await page.getByRole("heading", { name: heading, exact: true }).first().waitFor();
    await look(screen.toLowerCase());
  }
  return { problems };
}

/** The model server withholds the second piece until this script has seen the first one in the page. */
async function withWithholding(page, config, problems) {
  await setUp(page, config.setup);
  await chooseModel(page, config.model, "patient");
  const chat = await addChat(page);
  await ask(chat, "now");
  const shown = watch(chat);
  await until("the first piece", async () => (await shown()) !== "");
  assert.equal(await shown(), "first");
  await fetch(`${config.model}/release`, { method: "POST" });
  await until("the second piece", async () => (await shown()) === "first second");
  await until("the end", finished(chat));

  // Asked to stop while it withholds, the engine hangs up on the server.
  await ask(chat, "again");
  await until("the first piece again", async () => (await shown()) === "first");
  await chat.getByRole("button", { name: "Stop", exact: true }).click();
  await chat.getByText("Stopped. What had arrived is kept.").waitFor();
  assert.equal(await shown(), "first");
  return { problems };
}

await main((config) =>
  withChromium([], async (browser) => {
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
    const problems = [];
    page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
    page.on("console", (message) => {
      const text = `${message.text()} ${message.location().url}`;
      if (message.type() === "error" && !EXPECTED.some((known) => known.test(text))) problems.push(`console: ${text}`);
    });
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (url.protocol.startsWith("http") && url.origin !== config.url) problems.push(`request to ${url.origin}`);
    });
    try {
      return await (config.withholding ? withWithholding : withLlmock)(page, config, problems);
    } catch (error) {
      await page.screenshot({ path: `${config.pictures}/failed.png` });
      console.log(problems.join("\n"));
      throw error;
    }
  }),
);
