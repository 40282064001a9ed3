// @vitest-environment happy-dom
import { act } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { App } from "./app";
import type { Backend, EngineEvent } from "./backend";
import { oneLine } from "./parts/text";

// Names, manifests, model names and errors full of markup and script: shown as text, nothing runs, nothing loads.

const MARKUP = `<img src=x onerror="globalThis.pwned=1"><script>globalThis.pwned=1</script><a href="javascript:pwned=1">x</a>`;
const HOSTILE = `${MARKUP}[y](javascript:pwned=1)\u202e{{7*7}}`;
const PROTO = JSON.parse('{"__proto__": {"polluted": 1}, "constructor": 7}') as object;

const permission = (state: string) => ({
  capability: `${HOSTILE} ${state}`,
  sentence: `${HOSTILE} ${state}`,
  state,
  reason: HOSTILE,
  hosts: [HOSTILE, "javascript:globalThis.pwned=1"],
  local: state === "stale",
  policy: state === "denied" ? HOSTILE : "",
});
const plugin = {
  id: HOSTILE,
  globalId: HOSTILE,
  name: HOSTILE,
  version: HOSTILE,
  description: HOSTILE,
  hash: HOSTILE,
  error: HOSTILE,
  permissions: [permission("granted"), permission("asked"), permission("stale"), permission("denied")],
  changed: true,
  lastErrors: [{ at: 1e20, target: HOSTILE, detail: `${HOSTILE}\n${HOSTILE}` }],
  secrets: [{ name: HOSTILE, origin: "javascript:globalThis.pwned=1", reason: HOSTILE, saved: false, ...PROTO }],
};
const entry = {
  id: HOSTILE,
  at: 1e20,
  kind: HOSTILE,
  caller: HOSTILE,
  app: HOSTILE,
  target: HOSTILE,
  outcome: HOSTILE,
  detail: HOSTILE,
  chain: `${HOSTILE} > app:${HOSTILE} > plugin:${HOSTILE} > __proto__`,
  trace: "__proto__",
  model: HOSTILE,
  tokensIn: HOSTILE,
  cost: HOSTILE,
};
const app = {
  id: HOSTILE,
  name: HOSTILE,
  author: HOSTILE,
  description: HOSTILE,
  version: HOSTILE,
  plugins: 1,
  waiting: 2,
};

const answers: Record<string, unknown> = {
  "GET /v1/me": { username: HOSTILE, hasPassword: false },
  "GET /v1/settings": { model: HOSTILE, onboarded: true, theme: HOSTILE, ...PROTO },
  "GET /v1/launch": {
    apps: [
      app,
      { ...app, id: "second", name: "", repository: "javascript:globalThis.pwned=1", plugins: 0, waiting: 0 },
    ],
    broken: [{ id: HOSTILE, error: `${HOSTILE}\n${HOSTILE}` }],
    box: [{ id: "box", name: HOSTILE, description: HOSTILE, added: false }],
    engine: { version: HOSTILE },
  },
  "GET /v1/settings/connections": {
    connections: [
      {
        id: "c",
        name: HOSTILE,
        preset: HOSTILE,
        api: HOSTILE,
        baseUrl: "javascript:globalThis.pwned=1",
        finalUrl: HOSTILE,
        hasKey: true,
        keyKept: HOSTILE,
        keyTrouble: HOSTILE,
        promptFormat: { ...PROTO },
      },
    ],
    keys: {
      store: "keychain",
      keychain: { usable: false, locked: true, reason: HOSTILE },
      file: { path: HOSTILE, reason: HOSTILE },
    },
  },
  "GET /v1/settings/providers": {
    presets: [
      { id: HOSTILE, name: HOSTILE, baseUrl: HOSTILE, keyPage: `javascript:globalThis.pwned=1//${HOSTILE}` },
      { id: "here", name: HOSTILE, baseUrl: HOSTILE, local: true },
    ],
    apis: [{ id: HOSTILE, name: HOSTILE }],
  },
  "GET /v1/settings/local-servers": { servers: [{ name: HOSTILE, baseUrl: HOSTILE, models: [HOSTILE] }] },
  "POST /v1/settings/connections/c/test": {
    ok: false,
    error: HOSTILE,
    url: HOSTILE,
    errorInfo: { kind: "key", provider: HOSTILE, model: HOSTILE, status: HOSTILE, window: HOSTILE, ...PROTO },
  },
  "GET /v1/models": {
    models: [
      { ref: HOSTILE, label: HOSTILE, connectionName: HOSTILE, canned: false },
      {
        ref: `c/${HOSTILE}`,
        label: HOSTILE,
        modelId: HOSTILE,
        connectionName: HOSTILE,
        contextWindow: HOSTILE,
        priceSource: "__proto__",
        pricing: { input: HOSTILE, ...PROTO },
      },
    ],
    errors: [{ connection: "c", connectionName: HOSTILE, error: HOSTILE }],
    default: HOSTILE,
  },
  "GET app-models": { models: [HOSTILE, "__proto__"] },
  "GET /v1/images/models": { models: [{ ref: HOSTILE, label: HOSTILE, connectionName: HOSTILE }], default: HOSTILE },
  "POST /v1/images": { url: `javascript:globalThis.pwned=1//${HOSTILE}`, model: HOSTILE, cost: HOSTILE },
  "GET /v1/audio/voices": {
    voices: [{ id: HOSTILE, name: HOSTILE, of: HOSTILE, endpoint: HOSTILE }],
    errors: [{ name: HOSTILE, error: HOSTILE }],
  },
  "POST /v1/audio/speech": { dataUrl: `data:text/html,${HOSTILE}`, voice: HOSTILE },
  "GET /v1/audio/speech/endpoints": {
    endpoints: [{ id: HOSTILE, name: HOSTILE, baseUrl: HOSTILE, model: HOSTILE, voice: HOSTILE }],
  },
  "GET /v1/embeddings/config": { model: HOSTILE, connection: HOSTILE, available: true },
  "POST /v1/embeddings/probe": { ok: false, error: HOSTILE },
  "GET /v1/spend": {
    today: { cost: HOSTILE, calls: 1 },
    month: { cost: 1, calls: 2, unpricedCalls: 1 },
    days: [{ day: HOSTILE, cost: 1, calls: 2, unpricedCalls: 1 }],
    apps: [{ app: HOSTILE, cost: 1, calls: 1 }],
  },
  "GET /v1/spend/limits": { all: HOSTILE, apps: { [HOSTILE]: { day: { usd: 1 } }, ...PROTO } },
  "POST /v1/apps/import": { ...app, head: HOSTILE, plugins: [plugin] },
  "GET plugins": { plugins: [plugin], usage: { day: HOSTILE, modelCalls: { used: HOSTILE, limit: HOSTILE } } },
  "GET difference": {
    before: HOSTILE,
    after: HOSTILE,
    files: [
      {
        path: HOSTILE,
        lines: [
          { kind: HOSTILE, text: HOSTILE },
          { kind: "+", text: HOSTILE },
        ],
        cut: HOSTILE,
      },
    ],
  },
  "GET activity": { entries: [entry] },
};

let failing: Set<string>;
let tell: (event: EngineEvent) => void;

const backend: Backend = {
  kind: "desktop",
  call: async (method, path) => {
    const key = path.endsWith("/plugins")
      ? "GET plugins"
      : path.endsWith("/difference")
        ? "GET difference"
        : path.startsWith("/v1/activity")
          ? "GET activity"
          : path.startsWith("/v1/settings/app-models/")
            ? "GET app-models"
            : `${method} ${path.split("?")[0]}`;
    if (failing.has(key)) return Response.json({ error: HOSTILE, code: HOSTILE }, { status: 500 });
    return key in answers ? Response.json(answers[key]) : new Response(HOSTILE, { status: 404 });
  },
  events: (onEvent) => {
    tell = onEvent;
    return () => {};
  },
  openApp: () => Promise.reject(new Error(HOSTILE)),
};

let root: Root;
let host: HTMLElement;

beforeEach(() => {
  (globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;
  failing = new Set();
  host = document.createElement("div");
  document.body.append(host);
  root = createRoot(host);
});
afterEach(async () => {
  await act(async () => root.unmount());
  host.remove();
});

async function show(hash: string) {
  location.hash = hash;
  await act(async () => root.render(<App backend={backend} setupToken={null} />));
  await settle();
}
const settle = () => act(() => new Promise((done) => setTimeout(done, 20)));
/** Waits, for at most 10 seconds, until the screen is as it should be; what is asserted then says what it is not. */
async function until(fits: () => boolean) {
  const deadline = performance.now() + 10_000;
  while (!fits() && performance.now() < deadline) await settle();
}
async function press(label: string) {
  const buttons = () => [...host.querySelectorAll("button")];
  const named = (b: HTMLButtonElement) => (b.getAttribute("aria-label") ?? b.textContent ?? "").startsWith(label);
  await until(() => buttons().some((b) => named(b) && !b.disabled));
  const button = buttons().find(named);
  if (!button) throw new Error(`no button ${label} among ${buttons().map((b) => b.textContent)}`);
  await act(async () => button.click());
  await settle();
}

/** Fails when anything of the hostile text has become an element, an address or a handler. */
async function expectOnlyText(times: number) {
  const count = () => (host.textContent ?? "").split('<img src=x onerror="globalThis.pwned=1">').length - 1;
  await until(() => count() >= times);
  expect(
    host.querySelectorAll("script, img, iframe, object, embed, link, style, base, meta, form[action]").length,
  ).toBe(0);
  for (const element of host.querySelectorAll("*")) {
    for (const { name, value } of element.attributes) {
      expect(name.startsWith("on"), `${element.tagName} ${name}`).toBe(false);
      if (["href", "src", "action", "formaction", "xlink:href"].includes(name)) expect(value).toMatch(/^#\//);
    }
  }
  const text = host.textContent ?? "";
  expect(count(), "shown as text").toBeGreaterThanOrEqual(times);
  expect(text).not.toContain("\u202e");
  expect((globalThis as { pwned?: unknown }).pwned).toBeUndefined();
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
}

describe("hostile texts", () => {
  it("in the grid, broken apps and the box", async () => {
    await show("#/");
    await expectOnlyText(7);
  });

  it("in an app's permissions", async () => {
    await show("#/");
    await press("Plugins: 2 wait for you");
    await expectOnlyText(24);
    await press("Show what changed");
    await expectOnlyText(27);
    await press("Remove this plugin");
    await expectOnlyText(27);
  });

  it("in a review", async () => {
    await show("#/");
    await press("Add ");
    await expectOnlyText(12);
  });

  it("in the settings, and in what a connection said when it was asked to say hello", async () => {
    await show("#/settings/models");
    await expectOnlyText(18);
    await press("Say hello");
    await expectOnlyText(21);
    await press("Change ");
    await expectOnlyText(23);
    await press("Edit ");
    await expectOnlyText(14);
  });

  it("in the words of a connection that answers", async () => {
    const failed = answers["POST /v1/settings/connections/c/test"];
    answers["POST /v1/settings/connections/c/test"] = { ok: true, model: HOSTILE, url: HOSTILE, text: HOSTILE };
    await show("#/settings/models");
    await press("Say hello");
    await expectOnlyText(21);
    answers["POST /v1/settings/connections/c/test"] = failed;
  });

  it("in the services that can be connected", async () => {
    await show("#/settings/models");
    await press("Add a connection");
    await expectOnlyText(23);
    await press("Connect <img");
    await expectOnlyText(21);
  });

  it("in speech and images, and what they answer", async () => {
    await show("#/settings/speech");
    await expectOnlyText(6);
    await press("Make a picture");
    await press("Play");
    await press("Try it");
    await expectOnlyText(8);
  });

  it("in the spending", async () => {
    await show("#/spend");
    await expectOnlyText(4);
    await press("Change the limits: <img");
    await expectOnlyText(4);
  });

  it("in the general settings", async () => {
    await show("#/settings/general");
    await expectOnlyText(1);
  });

  it("in the activity, as loaded and as told", async () => {
    await show("#/activity");
    await expectOnlyText(5);
    await act(async () => tell({ type: "activity", payload: { ...entry, id: "new" } }));
    await expectOnlyText(6);
  });

  it("in the first start", async () => {
    answers["GET /v1/settings"] = { model: null, onboarded: false };
    await show("#/");
    await press("Skip");
    await expectOnlyText(2);
    await press("Skip");
    await expectOnlyText(1);
    answers["GET /v1/settings"] = { model: HOSTILE, onboarded: true, theme: HOSTILE };
  });

  it("in errors of every kind", async () => {
    failing.add("GET /v1/launch");
    await show("#/");
    await expectOnlyText(1);
    failing.clear();
    failing.add("GET /v1/me");
    await act(async () => root.unmount());
    root = createRoot(host);
    await show("#/");
    await expectOnlyText(1);
  });

  it("in what the shell says when an app cannot be opened", async () => {
    await show("#/");
    await press("Open ");
    await expectOnlyText(9);
  });
});

describe("a foreign text on one line", () => {
  it.each([
    ["a\u202eb", "a\ufffdb"],
    ["a\n\n b\t", "a b"],
    ["\u200b\u2066x", "\ufffd\ufffdx"],
    ["\u{e0041}x", "\ufffdx"],
    [`e${"\u0301".repeat(50)}`, `e${"\u0301".repeat(4)}`],
    ["👩\u200d💻 日本 עברית", "👩\u200d💻 日本 עברית"],
  ])("shows %j", (given, shown) => expect(oneLine(given)).toBe(shown));

  it("has an end", () => expect(oneLine("x".repeat(5000)).length).toBe(301));
});
