import { act } from "react";
import { createRoot, type Root } from "react-dom/client";
import { App } from "./app";
import type { Backend, EngineEvent, Method } from "./backend";

// For tests of screens only: the launcher on a made-up engine, used by what a person sees of it.

export interface Asked {
  method: Method;
  path: string;
  query: URLSearchParams;
  body: unknown;
}
/** What the made-up engine answers: a value as JSON, a whole answer, or nothing for "not found". */
export type Answers = (asked: Asked) => unknown;

export class Screen {
  readonly host = document.body.appendChild(document.createElement("div"));
  /** Everything that was asked and was not only read. */
  readonly asked: Asked[] = [];
  private root: Root = createRoot(this.host);
  private hear: (event: EngineEvent) => void = () => undefined;

  constructor(private answers: Answers) {
    Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });
  }

  private backend: Backend = {
    kind: "desktop",
    call: async (method, path, options) => {
      const url = new URL(path, "http://engine.test");
      const body: unknown = typeof options?.body === "string" ? JSON.parse(options.body) : undefined;
      const asked = { method, path: url.pathname, query: url.searchParams, body };
      if (method !== "GET") this.asked.push(asked);
      const value = this.answers(asked) ?? ALWAYS[`${method} ${url.pathname}`];
      if (value instanceof Response) return value;
      return value === undefined ? Response.json({ error: "not found" }, { status: 404 }) : Response.json(value);
    },
    events: (onEvent) => {
      this.hear = onEvent;
      return () => undefined;
    },
    openApp: () => Promise.resolve(),
  };

  async show(hash: string): Promise<void> {
    location.hash = hash;
    await act(async () => this.root.render(<App backend={this.backend} setupToken={null} />));
  }
  async tell(type: string, payload: unknown = {}): Promise<void> {
    await act(async () => this.hear({ type, payload }));
  }
  async end(): Promise<void> {
    await act(async () => this.root.unmount());
    this.host.remove();
  }

  /** Waits for what `get` finds, for at most 10 seconds. */
  async until<T>(get: () => T | undefined | null | false): Promise<T> {
    const deadline = performance.now() + 10_000;
    for (;;) {
      const value = get();
      if (value) return value;
      if (performance.now() > deadline) throw new Error(`in vain; shown is: ${this.host.textContent}`);
      await act(() => new Promise((done) => setTimeout(done, 10)));
    }
  }
  text(): string {
    return this.host.textContent ?? "";
  }
  shows(text: string): Promise<boolean> {
    return this.until(() => this.text().includes(text));
  }
  gone(text: string): Promise<boolean> {
    return this.until(() => !this.text().includes(text));
  }
  /** All buttons, inputs and lists with this name, as a screen reader would say it. */
  named<T extends HTMLElement = HTMLElement>(name: string): T[] {
    const label = (element: Element) =>
      element.getAttribute("aria-label") ??
      this.host.querySelector(`label[for="${element.id}"]`)?.textContent ??
      element.closest("label")?.textContent ??
      element.textContent;
    const found = this.host.querySelectorAll<T>("button, summary, input, select, textarea, a, ul, section");
    return [...found].filter((element) => label(element) === name);
  }
  async press(name: string, at = 0): Promise<void> {
    const button = await this.until(() => this.named<HTMLButtonElement>(name).filter((one) => !one.disabled)[at]);
    await act(async () => button.click());
  }
  async enter(name: string, text: string): Promise<void> {
    const field = await this.until(() => this.named<HTMLInputElement>(name)[0]);
    const kind = [HTMLSelectElement, HTMLTextAreaElement].find((one) => field instanceof one) ?? HTMLInputElement;
    await act(async () => {
      Object.getOwnPropertyDescriptor(kind.prototype, "value")?.set?.call(field, text);
      field.dispatchEvent(new Event(field instanceof HTMLSelectElement ? "change" : "input", { bubbles: true }));
    });
  }
}

const ALWAYS: Record<string, unknown> = {
  "GET /v1/me": { username: "ada", hasPassword: false },
  "GET /v1/settings": { model: "c_one/m", onboarded: true },
  "GET /v1/launch": {
    apps: [{ id: "chat", name: "Talk", plugins: 1, waiting: 1 }],
    broken: [],
    box: [],
    engine: { version: "1" },
  },
  "GET /v1/settings/connections": {
    connections: [{ id: "c_one", name: "Kitchen", baseUrl: "http://127.0.0.1:1" }],
    keychain: { usable: true, reason: "" },
  },
};
