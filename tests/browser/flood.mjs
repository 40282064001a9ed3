// Apps that flood the shell. During each the launcher still answers, and its memory is read before and after.

import { main, setUp, until, withChromium } from "./browser.mjs";

await main((config) =>
  withChromium([], async (browser) => {
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
    const devtools = await page.context().newCDPSession(page);
    const heap = async () => {
      await devtools.send("HeapProfiler.collectGarbage");
      return (await devtools.send("Runtime.getHeapUsage")).usedSize / 2 ** 20;
    };
    await setUp(page, config.setup);
    await page.getByRole("button", { name: "Skip the rest" }).click();
    const apps = page.getByRole("heading", { name: "Apps" });
    await apps.waitFor();
    const result = {};
    for (const way of config.ways) {
      const before = await heap();
      await page.goto(`${config.url}/#/app/${way}`);
      await page.locator(".frame-view").waitFor();
      // The shell answers while the page does its worst: how long a turn of its event loop takes, each time.
      const turns = [];
      const end = Date.now() + 4_000;
      while (Date.now() < end) {
        turns.push(
          await page.evaluate(
            () =>
              new Promise((done) => {
                const begun = performance.now();
                setTimeout(() => done(performance.now() - begun));
              }),
          ),
        );
      }
      const stopped = await page.getByText("This app was stopped").isVisible();
      const pressed = Date.now();
      await page.getByRole("button", { name: /Back/ }).click();
      await apps.waitFor();
      const answeredMs = Date.now() - pressed;
      await until("its frame is gone", async () => (await page.locator("iframe").count()) === 0);
      turns.sort((a, b) => a - b);
      result[way] = {
        stopped,
        answeredMs,
        turnMsMedian: turns[Math.floor(turns.length / 2)],
        turnMsMost: turns.at(-1),
        grownMiB: (await heap()) - before,
      };
    }
    return result;
  }),
);
