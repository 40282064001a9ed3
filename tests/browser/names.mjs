// Walks through every screen of the launcher, and through Chat, with everything named by an attacker.

import assert from "node:assert/strict";
import { addChat, chooseModel, connect, main, setUp, until, withChromium } from "./browser.mjs";

async function walk(page, config, pwned) {
  const { marks } = config;
  const picture = (name) => page.screenshot({ path: `${config.pictures}/${name}.png` });
  /** The text stands there as it is, and as no element. */
  const literal = async (mark, where = page) => {
    await where.getByText(mark, { exact: false }).first().waitFor();
    await pwned();
  };
  const visit = async (hash) => {
    await page.goto(`${config.url}/${hash}`);
    await page.locator("#content h1").first().waitFor();
  };

  await setUp(page, config.setup);
  await chooseModel(page, config.model, marks.model);
  const chat = await addChat(page);

  // Markdown, a model's name and an error, in Chat.
  const ask = async (text) => {
    const field = chat.locator("form.composer textarea");
    await field.fill(text);
    await field.press("Enter");
  };
  await ask("say it");
  await chat.getByText("the end").waitFor();
  await until("the answer is finished", async () => (await chat.locator("article.pending").count()) === 0);
  for (const link of await chat.locator("article .markdown a").all()) {
    const href = (await link.getAttribute("href")) ?? "";
    assert.ok(href === "" || /^https?:/.test(href), `a link to ${href}`);
  }
  assert.equal(
    await chat
      .locator(
        ".markdown :is(script, iframe, svg image, [onload], img, style, link, meta, base, form, video, object, embed)",
      )
      .count(),
    0,
  );
  await literal(marks.model, chat);
  await picture("chat");
  await ask("please fail");
  await chat.getByText("The model could not finish").waitFor();
  await literal(marks.ended, chat);
  await ask(marks.answer);
  await literal(marks.answer, chat.locator("article.mine"));
  await picture("chat-error");

  // The grid, what waits, and the broken apps.
  await visit("#/");
  await literal(marks.name);
  await literal(marks.author);
  await literal(marks.description);
  await literal(marks.kind);
  await picture("home");
  await page
    .locator(".grid")
    .getByRole("button", { name: /^(Plugins of|Plugins: .*:) <img/ })
    .click();
  await literal(marks.plugin, page.getByRole("dialog"));
  await picture("permissions");
  await page.keyboard.press("Escape");
  await page
    .getByRole("button", { name: /^Remove <img/ })
    .first()
    .click();
  await literal(marks.name.slice(0, 40), page.getByRole("dialog"));
  await page.keyboard.press("Escape");
  await page.locator(".search").fill(marks.name);
  await literal(marks.name);
  await page.locator(".search").fill(`${marks.name} no such`);
  await literal(marks.name);

  // A connection with a hostile name whose server fails with a hostile message.
  await visit("#/settings/models");
  await page.getByRole("button", { name: "Add a connection" }).click();
  await connect(page, `${config.model}/fails`, marks.connection);
  await literal(marks.connection);
  await literal(marks.failure);
  await picture("settings");
  await page.getByRole("button", { name: /^Say hello to <img/ }).click();
  await literal(marks.failure);

  // A person's own name, and what has been written down about all this.
  await visit("#/settings/general");
  await page.getByLabel("Your name").fill(marks.name);
  await page.getByLabel("Current password").first().fill("correct horse battery");
  await page.getByLabel("Current password").first().press("Enter");
  await literal("this name is not valid");
  await visit("#/activity");
  // The list itself: the filter beside it has the same names in a closed menu.
  const list = page.locator(".traces");
  await literal(marks.failure.slice(0, 30), list).catch(() => literal(marks.model.slice(0, 30), list));
  await picture("activity");

  // The hostile app's own frame has a hostile title above it.
  await visit("#/app/evil");
  await literal(marks.name.slice(0, 40));
  await picture("app");
  await page.goto(`${config.url}/#/app/${encodeURIComponent(marks.name)}`);
  await page.locator("#content").waitFor();
  await pwned();
}

await main((config) =>
  withChromium([], async (browser) => {
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
    const problems = [];
    page.on("dialog", (dialog) => {
      problems.push(`dialog: ${dialog.message()}`);
      dialog.dismiss();
    });
    page.on("popup", (popup) => problems.push(`popup: ${popup.url()}`));
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (url.protocol.startsWith("http") && url.origin !== config.url) problems.push(`request: ${url}`);
      if (url.pathname.includes("/hear-")) problems.push(`request: ${url}`);
    });
    const pwned = async () => {
      for (const frame of page.frames()) {
        const marked = await frame.evaluate(() => globalThis.__pwned).catch(() => undefined);
        assert.equal(marked, undefined, `a script of the attacker's ran in ${frame.url()}`);
      }
    };
    try {
      await walk(page, config, pwned);
      return { problems };
    } catch (error) {
      await page.screenshot({ path: `${config.pictures}/failed.png` });
      console.log(problems.join("\n"));
      throw error;
    }
  }),
);
