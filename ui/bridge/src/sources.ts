import type { Fetch } from "./fetch";
import { DOMException, Event, EventTarget, forget, later, MessageEvent, TextDecoder, URL } from "./natives";
import type { Exchange, In } from "./wire";

type Handler = ((event: Event) => void) | null;

/** An event target with `on…` properties, which run in the order in which they were set, as on the platform. */
class Target extends EventTarget {
  #handlers: Record<string, Handler> = {};

  protected handler(type: string): Handler {
    return this.#handlers[type] ?? null;
  }

  protected setHandler(type: string, handler: Handler) {
    if (!(type in this.#handlers)) this.addEventListener(type, (event) => this.#handlers[type]?.call(this, event));
    this.#handlers[type] = typeof handler === "function" ? handler : null;
  }
}

function handlers(target: { prototype: object }, types: string[]) {
  for (const type of types) {
    Object.defineProperty(target.prototype, `on${type}`, {
      configurable: true,
      enumerable: true,
      get(this: { handler(type: string): Handler }) {
        return this.handler(type);
      },
      set(this: { setHandler(type: string, handler: Handler): void }, value: Handler) {
        this.setHandler(type, value);
      },
    });
  }
}

function constants(target: object & { prototype: object }, values: Record<string, number>) {
  for (const name in values) {
    const property = { value: values[name], enumerable: true };
    Object.defineProperty(target, name, property);
    Object.defineProperty(target.prototype, name, property);
  }
}

export interface ParsedEvent {
  type: string;
  data: string;
  id: string;
}

/** Takes the text of a `text/event-stream` in any pieces; `retry` is told the server's wish in milliseconds. */
export function eventParser(emit: (event: ParsedEvent) => void, retry: (ms: number) => void = () => {}) {
  let rest = "";
  let afterCr = false;
  let first = true;
  let type = "";
  let data: string[] = [];
  let id = "";

  const line = (text: string) => {
    if (text === "") {
      if (data.length) emit({ type: type || "message", data: data.join("\n"), id });
      type = "";
      data = [];
      return;
    }
    const colon = text.indexOf(":");
    if (colon === 0) return;
    const field = colon < 0 ? text : text.slice(0, colon);
    const value = colon < 0 ? "" : text.slice(text[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "data") data.push(value);
    else if (field === "event") type = value;
    else if (field === "id" && !value.includes("\0")) id = value;
    else if (field === "retry" && /^\d+$/.test(value)) retry(Number(value));
  };

  return (piece: string) => {
    if (!piece) return;
    let text = piece;
    if (first) {
      first = false;
      if (text.startsWith("\uFEFF")) text = text.slice(1);
    }
    if (afterCr && text.startsWith("\n")) text = text.slice(1);
    afterCr = text ? text.endsWith("\r") : false;
    text = rest + text;
    let at = 0;
    let cr = text.indexOf("\r");
    for (;;) {
      const lf = text.indexOf("\n", at);
      if (cr >= 0 && cr < at) cr = text.indexOf("\r", at);
      const end = lf < 0 ? cr : cr < 0 ? lf : Math.min(lf, cr);
      if (end < 0) break;
      line(text.slice(at, end));
      at = end + (end === cr && text[end + 1] === "\n" ? 2 : 1);
    }
    rest = text.slice(at);
  };
}

/** `EventSource` over the bridged fetch. Reconnects after 3 s, or after what the server's `retry:` says. */
export function makeEventSource(fetch: Fetch, baseUri: () => string) {
  class BridgedEventSource extends Target {
    readonly url: string;
    readonly withCredentials = false;
    readyState = 0;
    #abort = new AbortController();
    #retry = 3000;
    #timer: ReturnType<typeof later> | undefined;

    constructor(url: string | URL) {
      super();
      try {
        this.url = new URL(String(url), baseUri()).href;
      } catch {
        throw new DOMException(`"${url}" is not an address.`, "SyntaxError");
      }
      void this.#connect();
    }

    close() {
      this.readyState = 2;
      if (this.#timer !== undefined) forget(this.#timer);
      this.#abort.abort();
    }

    async #connect() {
      this.#timer = undefined;
      try {
        const response = await fetch(this.url, {
          headers: { accept: "text/event-stream" },
          cache: "no-store",
          signal: this.#abort.signal,
        });
        if (this.readyState === 2) return;
        const type = response.headers.get("content-type") ?? "";
        if (response.status !== 200 || !/^text\/event-stream\s*(;|$)/i.test(type) || !response.body) {
          this.close();
          this.dispatchEvent(new Event("error"));
          return;
        }
        this.readyState = 1;
        this.dispatchEvent(new Event("open"));
        await this.#read(response.body.getReader());
      } catch (error) {
        // An address that a page may not fetch is refused for good; a connection that broke is tried again.
        if (this.readyState === 0 && error instanceof TypeError && /may fetch only/.test(error.message)) {
          this.readyState = 2;
        }
      }
      if (this.readyState === 2) {
        if (!this.#abort.signal.aborted) this.dispatchEvent(new Event("error"));
        return;
      }
      this.readyState = 0;
      this.dispatchEvent(new Event("error"));
      if ((this.readyState as number) !== 2) this.#timer = later(() => void this.#connect(), this.#retry);
    }

    async #read(reader: ReadableStreamDefaultReader<Uint8Array>) {
      const decoder = new TextDecoder();
      const feed = eventParser(
        ({ type, data, id }) => {
          if (this.readyState !== 2) this.dispatchEvent(new MessageEvent(type, { data, lastEventId: id }));
        },
        (ms) => {
          this.#retry = ms;
        },
      );
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        feed(decoder.decode(value, { stream: true }));
      }
    }
  }
  handlers(BridgedEventSource, ["open", "message", "error"]);
  constants(BridgedEventSource, { CONNECTING: 0, OPEN: 1, CLOSED: 2 });
  return BridgedEventSource;
}

/** `WebSocket` for `/v1/ws`, the engine's events. It only listens: what a page sends goes nowhere. */
export function makeWebSocket(exchange: Exchange, place: () => { href: string; base: string }) {
  class BridgedWebSocket extends Target {
    readonly url: string;
    readonly protocol = "";
    readonly extensions = "";
    readonly bufferedAmount = 0;
    binaryType: BinaryType = "blob";
    readyState = 0;
    #id: number;

    constructor(address: string | URL) {
      super();
      const { href, base } = place();
      let url: URL;
      try {
        url = new URL(String(address), href);
      } catch {
        throw new DOMException(`"${address}" is not an address.`, "SyntaxError");
      }
      const path = base && url.pathname.startsWith(`${base}/`) ? url.pathname.slice(base.length) : url.pathname;
      if (url.host !== new URL(href).host || path !== "/v1/ws") {
        throw new DOMException("An app page may open only the WebSocket /v1/ws.", "SecurityError");
      }
      this.url = url.href;
      this.#id = exchange.open((message) => this.#on(message));
      exchange.send({ t: "ws", id: this.#id, url: path + url.search });
    }

    send(_data: unknown) {
      if (this.readyState === 0) throw new DOMException("The socket is still connecting.", "InvalidStateError");
    }

    close(code = 1000, reason = "") {
      if (this.readyState >= 2) return;
      this.readyState = 2;
      exchange.send({ t: "ws-close", id: this.#id });
      later(() => this.#closed(code, reason, true));
    }

    #on(message: In) {
      if (message.t !== "ws" || this.readyState === 3) return;
      if (message.event === "open" && this.readyState === 0) {
        this.readyState = 1;
        this.dispatchEvent(new Event("open"));
      } else if (message.event === "message" && this.readyState === 1) {
        this.dispatchEvent(new MessageEvent("message", { data: message.data }));
      } else if (message.event === "error") {
        this.dispatchEvent(new Event("error"));
      } else if (message.event === "close") {
        this.#closed(1000, "", true);
      }
    }

    #closed(code: number, reason: string, wasClean: boolean) {
      if (this.readyState === 3) return;
      this.readyState = 3;
      exchange.close(this.#id);
      const event = new Event("close");
      Object.assign(event, { code, reason, wasClean });
      this.dispatchEvent(event);
    }
  }
  handlers(BridgedWebSocket, ["open", "message", "error", "close"]);
  constants(BridgedWebSocket, { CONNECTING: 0, OPEN: 1, CLOSING: 2, CLOSED: 3 });
  return BridgedWebSocket;
}
