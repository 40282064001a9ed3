// @vitest-environment happy-dom
import { act } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, expect, it } from "vitest";
import { App } from "../app";
import type { Backend } from "../backend";

// The first start with a model server that does not answer at first: nothing is left behind that always fails.

let connections: { id: string; name: string; baseUrl: string }[];
let root: Root;
let host: HTMLElement;

const DOWN = "could not connect: nothing is listening there";
const isDown = (address: string) => address.includes("wrong");

function answer(method: string, path: string, body: { name?: string; baseUrl?: string }): unknown {
  const [, id] = /^\/v1\/settings\/connections\/(.+)$/.exec(path) ?? [];
  const saved = (connection: unknown) => ({ connection, notice: "" });
  if (method === "POST" && path === "/v1/settings/connections") {
    const made = { id: `c_${connections.length}`, name: body.name ?? "server", baseUrl: body.baseUrl ?? "" };
    connections.push(made);
    return saved(made);
  }
  if (method === "PATCH") {
    connections = connections.map((one) => (one.id === id ? { ...one, ...body } : one));
    return saved(connections.find((one) => one.id === id));
  }
  if (method === "DELETE") {
    connections = connections.filter((one) => one.id !== id);
    return {};
  }
  const answers: Record<string, unknown> = {
    "/v1/me": { username: "owner", hasPassword: false },
    "/v1/settings": { model: null, onboarded: false },
    "/v1/launch": { apps: [], broken: [], box: [], engine: { version: "1" } },
    "/v1/settings/connections": { connections, keychain: { usable: true, reason: "" } },
    "/v1/settings/providers": { presets: [] },
    "/v1/settings/local-servers": { servers: [] },
    "/v1/models": {
      models: connections
        .filter((one) => !isDown(one.baseUrl))
        .map((one) => ({ ref: `${one.id}/m`, label: "m", connectionName: one.name, canned: false })),
      errors: connections
        .filter((one) => isDown(one.baseUrl))
        .map((one) => ({ connection: one.id, connectionName: one.name, error: DOWN })),
      default: null,
    },
  };
  return answers[path];
}

const backend: Backend = {
  kind: "desktop",
  call: async (method, path, init) => {
    const body = typeof init?.body === "string" ? JSON.parse(init.body) : {};
    const value = answer(method, path, body);
    return value === undefined ? new Response("", { status: 404 }) : Response.json(value);
  },
  events: () => () => {},
  openApp: () => Promise.resolve(),
};

const settle = () => act(() => new Promise((done) => setTimeout(done, 20)));
async function until<T>(get: () => T | undefined | null | false): Promise<T> {
  const deadline = performance.now() + 10_000;
  for (;;) {
    const value = get();
    if (value) return value;
    if (performance.now() > deadline) throw new Error(`in vain; shown is: ${host.textContent}`);
    await settle();
  }
}
async function press(label: string) {
  const buttons = () => [...host.querySelectorAll("button")];
  const button = await until(() => buttons().find((b) => b.textContent === label && !b.disabled));
  await act(async () => button.click());
}
const address = () => host.querySelector<HTMLInputElement>("input[type=url]");
async function enter(text: string) {
  const field = await until(address);
  await act(async () => {
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value")?.set?.call(field, text);
    field.dispatchEvent(new Event("input", { bubbles: true }));
  });
}
const shows = (text: string) => until(() => host.textContent?.includes(text));

async function load() {
  await act(async () => root.unmount());
  root = createRoot(host);
  await act(async () => root.render(<App backend={backend} setupToken={null} />));
}

beforeEach(async () => {
  sessionStorage.clear();
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
  connections = [];
  host = document.body.appendChild(document.createElement("div"));
  root = createRoot(host);
  location.hash = "#/";
  await act(async () => root.render(<App backend={backend} setupToken={null} />));
  await press("Skip");
  await shows("Which model should answer?");
  await enter("http://wrong.test:9");
  await press("Connect");
  await shows(DOWN);
});
afterEach(async () => {
  await act(async () => root.unmount());
  host.remove();
});

it("a connection that fails is put right, not made a second time", async () => {
  expect(address()?.value).toBe("http://wrong.test:9");
  await enter("http://right.test:9");
  await press("Save");
  await shows("is connected");
  expect(connections.map((one) => one.baseUrl)).toEqual(["http://right.test:9"]);
});

it("a window that is loaded again goes on where it was, with what was connected", async () => {
  await enter("http://right.test:9");
  await press("Save");
  await shows("is connected");
  await load();
  await shows("Connected already");
  await press("Use server");
  await shows("is connected");
  await press("Continue");
  await shows("Open your first app");
  await load();
  await shows("Open your first app");
});

it("a connection that fails can be given up", async () => {
  await press("Choose another");
  await shows("Just look around");
  expect(connections).toEqual([]);
});

it("an address that is none is refused in our own words", async () => {
  await enter("right.test");
  await press("Save");
  await shows("beginning with http://");
  expect(connections.map((one) => one.baseUrl)).toEqual(["http://wrong.test:9"]);
});
