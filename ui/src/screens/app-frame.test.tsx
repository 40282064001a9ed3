// @vitest-environment happy-dom
import { act } from "react";
import { createRoot, type Root } from "react-dom/client";
import { expect, it, vi } from "vitest";
import type { FrameOptions } from "../frames";
import { EngineContext } from "../state";
import { AppFrame } from "./app-frame";

const opened = vi.hoisted(() => ({ options: null as FrameOptions | null, closed: false }));
vi.mock("../frames", async (original) => ({
  ...(await original<typeof import("../frames")>()),
  openFrame: (options: FrameOptions) => {
    opened.options = options;
    opened.closed = false;
    const close = async () => {
      opened.closed = true;
    };
    return Promise.resolve({ iframe: document.createElement("iframe"), close });
  },
}));

async function show(): Promise<{ place: HTMLElement; root: Root }> {
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
  const place = document.body.appendChild(document.createElement("div"));
  const root = createRoot(place);
  const api = { launch: () => Promise.resolve({ apps: [] }) };
  const engine = { api, listen: () => () => {}, signedOut: () => {} } as never;
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
  const iframe = document.createElement("iframe");
  const steal = async () => {
    vi.spyOn(document, "activeElement", "get").mockReturnValue(iframe);
    await act(async () => dispatchEvent(new Event("blur")));
    vi.restoreAllMocks();
  };
  for (let turn = 0; turn < 5; turn++) await steal();
  expect(opened.closed).toBe(false);
  expect(place.querySelector("dialog")).not.toBe(null);
  await steal();
  expect(opened.closed).toBe(true);
  expect(place.querySelector("dialog")).toBe(null);
  expect(place.querySelector("[role=alert]")?.textContent).toContain("keyboard");
  await act(async () => root.unmount());
});
