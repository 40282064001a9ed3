// @vitest-environment happy-dom
import { act } from "react";
import { createRoot, type Root } from "react-dom/client";
import { expect, it, vi } from "vitest";
import type { EngineEvent } from "../backend";
import type { FrameOptions } from "../frames";
import { EngineContext, RECONNECTED } from "../state";
import { AppFrame } from "./app-frame";

const opened = vi.hoisted(() => ({ options: null as FrameOptions | null, closed: false, alive: true, turns: 0 }));
vi.mock("../frames", async (original) => ({
  ...(await original<typeof import("../frames")>()),
  openFrame: (options: FrameOptions) => {
    opened.options = options;
    opened.closed = false;
    opened.turns += 1;
    const close = async () => {
      opened.closed = true;
    };
    const alive = () => Promise.resolve(opened.alive);
    return Promise.resolve({ iframe: document.createElement("iframe"), close, alive });
  },
}));

const heard = new Set<(event: EngineEvent) => void>();
const tell = (type: string) => act(async () => heard.forEach((listener) => void listener({ type, payload: {} })));

/** The page takes the focus, that often. */
async function steals(times: number) {
  const iframe = document.createElement("iframe");
  for (let turn = 0; turn < times; turn++) {
    vi.spyOn(document, "activeElement", "get").mockReturnValue(iframe);
    await act(async () => dispatchEvent(new Event("blur")));
    vi.restoreAllMocks();
  }
}

const engineSays = { waiting: 0 };
const PLUGIN = { id: "p", globalId: "pest__p", name: "Helper", version: "", description: "", hash: "h", enabled: true };
Object.assign(PLUGIN, { error: "", lastErrors: [], secrets: [] });
const DIFFERENT = { path: "plugin.js", cut: false, lines: [{ kind: "+", text: "fresh();" }] };

async function show(): Promise<{ place: HTMLElement; root: Root }> {
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
  const place = document.body.appendChild(document.createElement("div"));
  const root = createRoot(place);
  const asked = { capability: "llm", sentence: "may use models", reason: "", hosts: [], policy: "", local: false };
  const permissions = [{ ...asked, quota: null, state: engineSays.waiting ? "stale" : "granted" }];
  const plugin = { ...PLUGIN, permissions, changed: engineSays.waiting > 0 };
  const api = {
    launch: () => Promise.resolve({ apps: [{ id: "pest", name: "Pest", plugins: 1, waiting: engineSays.waiting }] }),
    plugins: () => Promise.resolve({ plugins: [plugin], usage: null }),
    difference: () => Promise.resolve({ before: "a", after: "b", files: [DIFFERENT] }),
    approve: async () => {
      engineSays.waiting = 0;
    },
  };
  const listen = (listener: (event: EngineEvent) => void) => {
    heard.add(listener);
    return () => heard.delete(listener);
  };
  const engine = { backend: { kind: "web" }, api, listen, signedOut: () => {} } as never;
  await act(async () => {
    root.render(
      <EngineContext value={engine}>
        <AppFrame id="pest" />
      </EngineContext>,
    );
  });
  return { place, root };
}

// Every question is modal: a page that asks without end would keep the person from leaving it.
it("a page that keeps asking is not asked about any more, whether for files or for addresses", async () => {
  const { place, root } = await show();
  let questions = 0;
  let done = 0;
  for (let turn = 0; turn < 10; turn++) {
    await act(async () => {
      if (turn % 2) {
        opened.options?.onLink({ url: new URL("https://pest.example/"), done: () => done++ });
      } else {
        const blob = new Blob(["x"]);
        opened.options?.onDownload({ name: "x", bytes: 1, blob, accept: () => {}, refuse: () => done++ });
      }
    });
    const dialog = place.querySelector("dialog");
    if (!dialog) continue;
    questions += 1;
    const refuse = dialog.querySelector<HTMLButtonElement>(".dialog-actions button:not(.primary)");
    await act(async () => refuse?.click());
  }
  expect(questions).toBe(3);
  expect(done).toBe(10);
  expect(place.textContent).toContain("keeps asking");
  await act(async () => root.unmount());
});

it("a page that pulls the focus out of a question is stopped", async () => {
  const { place, root } = await show();
  await act(async () => opened.options?.onLink({ url: new URL("https://pest.example/"), done: () => {} }));
  await steals(5);
  expect(opened.closed).toBe(false);
  expect(place.querySelector("dialog")).not.toBe(null);
  await steals(1);
  expect(opened.closed).toBe(true);
  expect(place.querySelector("dialog")).toBe(null);
  expect(place.querySelector("[role=alert]")?.textContent).toContain("keyboard");
  await act(async () => root.unmount());
});

it("a page that pulls the focus out of the Plugins dialog, where secrets are typed, is stopped", async () => {
  const { place, root } = await show();
  await act(async () => place.querySelector<HTMLButtonElement>("button[aria-label='Plugins of Pest']")?.click());
  const deadline = performance.now() + 10_000;
  while (!place.querySelector("dialog") && performance.now() < deadline)
    await act(() => new Promise((done) => setTimeout(done, 10)));
  expect(place.querySelector("dialog h2")?.textContent).toBe("Plugins of Pest");
  await steals(6);
  expect(opened.closed).toBe(true);
  expect(place.querySelector("dialog")).toBe(null);
  await act(async () => root.unmount());
});

it("a page whose access ended with the engine's run is said to be so, and can be opened again", async () => {
  const { place, root } = await show();
  const { turns } = opened;
  await tell(RECONNECTED);
  expect(place.querySelector("[role=alert]")).toBe(null);
  opened.alive = false;
  await tell("apps_changed");
  expect(place.querySelector("[role=alert]")).toBe(null);
  await tell(RECONNECTED);
  const note = place.querySelector("[role=alert]");
  expect(note?.textContent).toContain("started again");
  expect(opened.closed, "what stands in the page is not thrown away").toBe(false);
  opened.alive = true;
  await act(async () => note?.querySelector("button")?.click());
  expect(opened.turns).toBe(turns + 1);
  expect(place.querySelector("[role=alert]")).toBe(null);
  await act(async () => root.unmount());
  expect(heard.size).toBe(0);
});

it("says at once that the code of a plugin changed, shows what did, and lets the page be opened again", async () => {
  engineSays.waiting = 1;
  const { place, root } = await show();
  const until = async (what: string, there = true) => {
    const deadline = performance.now() + 10_000;
    while (place.textContent?.includes(what) !== there) {
      if (performance.now() > deadline) throw new Error(`in vain: ${what}; shown is: ${place.textContent}`);
      await act(() => new Promise((done) => setTimeout(done, 10)));
    }
  };
  const press = async (text: string) => {
    const found = () => [...place.querySelectorAll("button")].find((b) => b.textContent === text && !b.disabled);
    const deadline = performance.now() + 10_000;
    while (!found() && performance.now() < deadline) await act(() => new Promise((done) => setTimeout(done, 10)));
    await act(async () => found()?.click());
  };
  await until("The code of plugin Helper changed since you allowed it.");
  await press("Look at what changed");
  await until("fresh();");
  expect(place.querySelector("dialog h2")?.textContent).toBe("Plugins of Pest");
  const { turns } = opened;
  await press("Allow 1 thing");
  await until("The code of plugin Helper", false);
  await act(async () => place.querySelector<HTMLButtonElement>("dialog button[aria-label=Close]")?.click());
  await until("may have to be opened again");
  await press("Open it again");
  expect(opened.turns).toBe(turns + 1);
  await until("may have to be opened again", false);
  await act(async () => root.unmount());
});
