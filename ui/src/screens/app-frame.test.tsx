// @vitest-environment happy-dom
import { act } from "react";
import { createRoot } from "react-dom/client";
import { expect, it, vi } from "vitest";
import type { FrameOptions } from "../frames";
import { EngineContext } from "../state";
import { AppFrame } from "./app-frame";

const opened = vi.hoisted(() => ({ options: null as FrameOptions | null }));
vi.mock("../frames", async (original) => ({
  ...(await original<typeof import("../frames")>()),
  openFrame: (options: FrameOptions) => {
    opened.options = options;
    return Promise.resolve({ iframe: document.createElement("iframe"), close: () => Promise.resolve() });
  },
}));

// Every question is modal: a page that asks without end would keep the person from leaving it.
it("a page that keeps asking is not asked about any more, whether for files or for addresses", async () => {
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
  HTMLDialogElement.prototype.showModal ??= () => {};
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
