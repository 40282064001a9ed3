// @vitest-environment happy-dom
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Screen } from "../../test-kit";

// The Activity page on a made-up engine that filters as the real one does.

type Line = Record<string, unknown> & { id: number };
const CHAIN = "owner > app:chat > plugin:chat/notes";
const line = (id: number, more: object): Line => ({
  id,
  at: Date.now() - 100_000 + id,
  kind: "connection",
  caller: "plugin:chat/notes",
  chain: CHAIN,
  trace: `t${id}`,
  app: "chat",
  target: `GET https://example.com/${id}`,
  outcome: "done",
  status: 200,
  bytesSent: 0,
  bytesReceived: 0,
  ms: 5,
  detail: null,
  ...more,
});

let lines: Line[];
let queries: string[];
let stopped: number;
let failing: boolean;
let screen: Screen;

beforeEach(() => {
  lines = [];
  queries = [];
  stopped = 0;
  failing = false;
  screen = new Screen(({ path, query }) => {
    if (path === "/v1/apps/chat/plugins")
      return { plugins: [{ id: "notes", globalId: "chat__notes", name: "Notebook" }] };
    if (path === "/v1/activity/chat/stop") return { stopped };
    if (path !== "/v1/activity") return undefined;
    queries.push(query.toString());
    if (failing) return Response.json({ error: "the log cannot be read" }, { status: 500 });
    const fits = (one: Line) =>
      ["app", "kind", "outcome", "trace"].every((name) => !query.has(name) || String(one[name]) === query.get(name)) &&
      (!query.has("before") || one.id < Number(query.get("before")));
    return { entries: lines.filter(fits).slice(0, Number(query.get("limit"))) };
  });
});
afterEach(() => screen.end());

const traces = () => [...screen.host.querySelectorAll(".trace")].map((one) => one.textContent ?? "");

describe("what is shown", () => {
  it("names people, apps, plugins and connections, and keeps the ids of what is gone", async () => {
    lines = [
      line(2, {
        kind: "model",
        target: "c_one/llama",
        model: "c_one/llama",
        tokensIn: 7,
        tokensOut: 1200,
        cost: 0.0002,
      }),
      line(1, { caller: "app:gone", chain: "owner > app:gone", app: "gone", detail: "asked through c_one" }),
    ];
    await screen.show("#/activity");
    await screen.shows("plugin Notebook");
    await screen.shows("Kitchen/llama");
    const [model, gone] = traces();
    expect(model).toMatch(/^You.*Talk.*plugin Notebook/);
    expect(model).toContain("7 tokens in · 1,200 out · 5 ms · $0.0002");
    expect(gone).toMatch(/^You.*gone/);
    expect(gone).toContain("Asked through Kitchen");
    expect(screen.text()).not.toContain("c_one");
    expect(screen.text()).not.toContain("app:");
  });

  it("says whose a plugin is where its app does not stand before it", async () => {
    lines = [line(2, { chain: "owner > plugin:chat/notes" }), line(1, {})];
    await screen.show("#/activity");
    await screen.shows("plugin Notebook of Talk");
    expect(traces()[1]).not.toContain("Notebook of");
  });

  it("puts what came of one call into one tree", async () => {
    lines = [
      line(3, { trace: "one", kind: "refusal", outcome: "refused", status: null, detail: "not a public address" }),
      line(2, { trace: "one", chain: `${CHAIN} > plugin:chat/other`, caller: "plugin:chat/other" }),
      line(1, { trace: "one" }),
    ];
    await screen.show("#/activity");
    await screen.shows("plugin Notebook");
    expect(traces()).toHaveLength(1);
    expect(traces()[0]).toMatch(
      /plugin Notebook.*example\.com\/1.*plugin other.*example\.com\/2.*Not a public address/,
    );
    const when = screen.host.querySelector("time");
    expect(when?.textContent).toBe("1 min. ago");
    expect(when?.title).not.toBe("");
  });

  it("lets names and code keep their letters, and says in words what a connection was for", async () => {
    const detail = (text: string, more: object = {}) => ({ detail: text, ...more });
    lines = [
      line(4, detail("chat")),
      line(3, detail("plugin main: TypeError: not a function", { kind: "error", outcome: "failed" })),
      line(2, detail('host.llm.request needs the permission "llm"', { kind: "refusal", outcome: "refused" })),
      line(1, detail("config.toml forbids it", { kind: "refusal", outcome: "refused" })),
    ];
    await screen.show("#/activity");
    await screen.shows("chat request");
    await screen.shows("plugin main: TypeError");
    await screen.shows("host.llm.request needs");
    await screen.shows("config.toml forbids it");
  });

  it("folds the search for model servers, of which most do not answer", async () => {
    const here = (id: number, port: number, more: object) =>
      line(id, {
        trace: "probe",
        caller: "owner",
        chain: "owner",
        app: null,
        target: `GET http://127.0.0.1:${port}/v1/models`,
        outcome: "failed",
        status: null,
        detail: "could not connect",
        ...more,
      });
    lines = [here(3, 11434, { outcome: "done", status: 200, detail: "probe" }), here(2, 1234, {}), here(1, 8080, {})];
    await screen.show("#/activity");
    await screen.shows("Looked for model servers on this computer: 3 ports asked, 1 answered");
    expect(screen.host.querySelector("details.looked")?.hasAttribute("open")).toBe(false);
    expect(screen.host.querySelectorAll("details.looked .entry")).toHaveLength(3);
  });

  it("is read again when something is told to have happened, and sees running work end", async () => {
    lines = [line(1, { outcome: "running", status: null })];
    await screen.show("#/activity");
    await screen.shows("Running");
    lines = [line(2, {}), line(1, { outcome: "failed", status: null, detail: "the server hung up" })];
    await screen.tell("activity", { id: 2, kind: "connection" });
    await screen.shows("example.com/2");
    await screen.shows("The server hung up");
    expect(traces()).toHaveLength(2);
  });

  it("is read again by itself, and not while paused", async () => {
    await screen.show("#/activity");
    await screen.shows("Nothing has happened yet.");
    lines = [line(1, {})];
    await screen.shows("example.com/1");
    await screen.press("Follow live");
    await screen.shows("New entries are not shown until you follow again.");
    const read = queries.length;
    lines = [line(2, {}), ...lines];
    await screen.tell("activity", { id: 2 });
    expect(queries).toHaveLength(read);
    await screen.press("Follow live");
    await screen.shows("example.com/2");
  });

  it("offers the next step when there is nothing", async () => {
    await screen.show("#/activity");
    await screen.press("Go to your apps");
    await screen.shows("Talk");
    expect(location.hash).toBe("#/");
  });

  it("says when it cannot be read, and goes on when it can", async () => {
    failing = true;
    await screen.show("#/activity");
    await screen.shows("the log cannot be read");
    failing = false;
    lines = [line(1, {})];
    await screen.press("Try again");
    await screen.shows("example.com/1");
    await screen.gone("the log cannot be read");
  });

  it("goes back page by page, to the last entry", async () => {
    lines = Array.from({ length: 230 }, (_, at) => line(230 - at, {}));
    await screen.show("#/activity");
    await screen.until(() => traces().length === 100);
    await screen.press("Show older");
    await screen.until(() => traces().length === 200);
    await screen.press("Show older");
    await screen.until(() => traces().length === 230);
    expect(screen.named("Show older")).toEqual([]);
    expect(new Set(traces()).size).toBe(230);
  });
});

describe("filters", () => {
  beforeEach(() => {
    lines = [
      line(3, { trace: "one", kind: "refusal", outcome: "refused", status: null, detail: "forbidden address" }),
      line(2, { trace: "one", target: "GET https://weather.example/" }),
      line(1, { caller: "owner", chain: "owner", app: null, outcome: "failed", target: "GET https://other.example/" }),
    ];
  });

  it("are the engine's for app, kind and end", async () => {
    await screen.show("#/activity");
    await screen.shows("other.example");
    await screen.enter("App", "chat");
    await screen.gone("other.example");
    await screen.shows("weather.example");
    await screen.enter("Ended how", "failed");
    await screen.shows("Nothing here fits what you chose.");
    expect(new URLSearchParams(queries.at(-1)).toString()).toBe("limit=100&app=chat&outcome=failed");
    await screen.press("Show everything");
    await screen.shows("other.example");
  });

  it("search what is shown, names included, and lead to the whole call", async () => {
    await screen.show("#/activity");
    await screen.shows("plugin Notebook");
    await screen.enter("Search", "NOTEBOOK forbidden");
    await screen.gone("weather.example");
    await screen.shows("Forbidden address");
    await screen.press("Show all that came of this call");
    await screen.shows("Only one call and what came of it");
    expect(new URLSearchParams(queries.at(-1)).get("trace")).toBe("one");
    await screen.press("Back to all");
    await screen.shows("Forbidden address");
  });

  it("begin with the app that the address names", async () => {
    await screen.show("#/activity/chat");
    await screen.shows("weather.example");
    expect(screen.text()).not.toContain("other.example");
    expect(screen.named<HTMLSelectElement>("App")[0]?.value).toBe("chat");
  });
});

describe("stopping an app", () => {
  it("says what was stopped, also when that was nothing", async () => {
    lines = [line(1, { outcome: "running" })];
    stopped = 2;
    await screen.show("#/activity/chat");
    await screen.press("Stop Talk");
    await screen.shows("Stopped 2 things that Talk had running.");
    expect(screen.asked).toMatchObject([{ method: "POST", path: "/v1/activity/chat/stop" }]);
    stopped = 0;
    await screen.press("Stop Talk", 1);
    await screen.shows("Nothing of Talk was running.");
  });
});
