// @vitest-environment happy-dom
import { afterEach, beforeEach, expect, it } from "vitest";
import { readAmount } from "../../parts/amount";
import { type Answers, Screen } from "../../test-kit";

// Activity → Spending on a made-up engine.

let screen: Screen;
let spend: Record<string, unknown>;
let limits: { all: unknown; apps: Record<string, unknown> };
const of = (cost: number, calls: number, unpricedCalls = 0) => ({
  cost,
  calls,
  unpricedCalls,
  tokensIn: calls * 10,
  tokensOut: calls,
});

const answer: Answers = ({ method, path, body }) => {
  if (path === "/v1/spend") return spend;
  if (path !== "/v1/spend/limits") return undefined;
  if (method === "PUT") {
    const given = body as { all?: unknown; apps?: Record<string, unknown> };
    limits = { all: given.all ?? limits.all, apps: { ...limits.apps, ...given.apps } };
  }
  return limits;
};
const sent = () => screen.asked.filter((one) => one.path === "/v1/spend/limits").map((one) => one.body);

beforeEach(() => {
  limits = { all: { day: { usd: 2 }, month: {} }, apps: {} };
  spend = {
    today: of(0.0042, 9, 2),
    month: of(12.5, 336, 25),
    days: [
      { day: "2026-11-30", ...of(3, 4) },
      { day: "2026-12-01", ...of(0, 3, 3) },
    ],
    apps: [
      { app: "chat", ...of(10, 250) },
      { app: null, ...of(0, 20, 20) },
      { app: null, removed: true, ...of(1, 2) },
    ],
  };
  screen = new Screen(answer);
});
afterEach(() => screen.end());

it("adds up today and the month, and counts calls of unknown price apart", async () => {
  await screen.show("#/spend");
  await screen.shows("$12.50");
  const [today, month] = ["Today", "This month"].map((name) => screen.named(name)[0]?.textContent ?? "");
  expect(today).toContain("$0.00427 callsplus 2 calls of unknown price");
  expect(month).toContain("$12.50311 callsplus 25 calls of unknown price");
});

it("gives each day as a bar and in a table, and never calls an unknown cost nothing", async () => {
  await screen.show("#/spend");
  await screen.shows("Highest: $3.00");
  expect(screen.host.querySelectorAll(".day-cost").length).toBe(1);
  expect(screen.host.querySelectorAll(".days .day-unknown").length).toBe(1);
  const rows = [...screen.host.querySelectorAll("tbody tr")].map((row) =>
    [...row.children].map((cell) => cell.textContent),
  );
  expect(rows).toEqual([
    ["Dec 1, 2026", "unknown", "3", "3", "33"],
    ["Nov 30, 2026", "$3.00", "4", "0", "44"],
    ["Talk", "$10.00", "250", "0", "2,750"],
    ["Chrysalis itself", "unknown", "20", "20", "220"],
    ["Removed apps", "$1.00", "2", "0", "22"],
  ]);
});

it("leads on when nothing was spent", async () => {
  spend = { today: of(0, 0), month: of(0, 0), days: [], apps: [] };
  await screen.show("#/spend");
  await screen.shows("No model was asked yet.");
  await screen.press("Go to your apps");
  await screen.shows("Talk");
});

it("sets limits over all apps, and takes them away", async () => {
  await screen.show("#/spend");
  await screen.shows("$2.00 a day");
  await screen.press("Change the limits: Over all apps");
  await screen.enter("Tokens, a month", "1.5");
  await screen.press("Save limits");
  await screen.shows("written in digits");
  await screen.enter("Tokens, a month", "500000");
  await screen.enter("US dollars, a day", "");
  await screen.press("Save limits");
  await screen.shows("500,000 tokens a month");
  const none = { usd: null, tokens: null, images: null, speechSeconds: null };
  expect(sent()).toEqual([{ all: { day: none, month: { ...none, tokens: 500_000 } } }]);
  await screen.press("Change the limits: Over all apps");
  await screen.press("No limits");
  await screen.shows("No limit is set.");
  expect(sent()[1]).toEqual({ all: { day: none, month: none } });
});

it("limits one app", async () => {
  await screen.show("#/spend");
  await screen.shows("Limit an app");
  await screen.enter("Limit an app", "chat");
  await screen.enter("Seconds of speech, a day", "90.5");
  await screen.press("Save limits");
  await screen.shows("90.5 s of speech a day");
  const none = { usd: null, tokens: null, images: null, speechSeconds: null };
  expect(sent()).toEqual([{ apps: { chat: { day: { ...none, speechSeconds: 90.5 }, month: none } } }]);
});

it.each([
  ["", null],
  [" 12 ", 12],
  ["0.25", 0.25],
  [".5", 0.5],
  ["0", 0],
])("reads %j as %j", (text, n) => expect(readAmount(text)).toBe(n));
it.each(["-1", "1,5", "1e3", "0x10", "NaN", "Infinity", "1.2.3", "9".repeat(30)])("does not read %j", (text) =>
  expect(readAmount(text)).toBeNaN(),
);
it("reads no fraction where things are counted", () => expect(readAmount("1.5", true)).toBeNaN());
