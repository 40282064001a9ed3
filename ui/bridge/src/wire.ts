// biome-ignore-all lint/suspicious/noShadowRestrictedNames: the natives stand in for the globals on purpose.
import { defineProperty, isArray, later, Map, stringify } from "./natives";

/** What the engine put before this script, new for every load of a page. */
export interface Boot {
  transport: "ipc" | "frame";
  app: string;
  /** 32 hexadecimal digits, new per load: binds every message to this very document. */
  secret: string;
  /** What stands before `/v1/…` and the app's files: empty in an app window, `/frame/<token>` in a browser. */
  base: string;
  storage: { local: Record<string, string>; session: Record<string, string> };
  /** Bytes that each of the two storages may hold. */
  quota: number;
}

/** Page to host. */
export interface Out {
  t:
    | "hello"
    | "fetch"
    | "body"
    | "abort"
    | "ack"
    | "seen"
    | "ws"
    | "ws-close"
    | "storage"
    | "download"
    | "data"
    | "link";
  [field: string]: unknown;
}

/** Host to page. `id` names the page's own request, socket or download. */
export interface In {
  t: string;
  id?: number;
  [field: string]: unknown;
}

export interface Wire {
  send(message: Out): void;
  /** Called once; messages come in order. */
  onMessage(handler: (message: In) => void): void;
}

/** The parts of `window` that the bridge touches before anything else. */
export interface PageWindow {
  ipc?: { postMessage(text: string): void };
  parent?: unknown;
  addEventListener(type: string, listener: (event: MessageEvent) => void, capture?: boolean): void;
  removeEventListener(type: string, listener: (event: MessageEvent) => void, capture?: boolean): void;
}

const HELLO_EVERY_MS = 300;

export function openWire(win: PageWindow, boot: Boot): Wire {
  return boot.transport === "ipc" ? ipcWire(win, boot.secret) : frameWire(win, boot.secret);
}

/** An app window: the webview's own IPC out, `__chrysalisIn` called by the host in. */
function ipcWire(win: PageWindow, secret: string): Wire {
  const ipc = win.ipc;
  const post = ipc ? (text: string) => ipc.postMessage(text) : () => {};
  // The secret is joined on as text and never sits in an object, where a page's `toJSON` would be handed it.
  const prefix = `{"s":${stringify(secret)},`;
  const send = (message: Out) => post(prefix + stringify(message).slice(1));
  let deliver: (message: In) => void = () => {};

  defineProperty(win, "__chrysalisIn", {
    writable: false,
    configurable: false,
    enumerable: false,
    value(batch: unknown) {
      if (!isArray(batch) || batch[0] !== secret || !isArray(batch[2])) return;
      for (const message of batch[2]) {
        try {
          deliver(message);
        } catch (error) {
          report(error);
        }
      }
      // Only now: the host counts batches that this page has not worked off yet.
      send({ t: "seen", n: batch[1] });
    },
  });
  return {
    send,
    onMessage(handler) {
      deliver = handler;
      send({ t: "hello" });
    },
  };
}

/**
 * A sandboxed frame in a browser: a MessagePort from the shell page. Every such frame has the origin `null`, so what
 * counts is who sent the message and the number that this document made up, never an origin.
 */
function frameWire(win: PageWindow, secret: string): Wire {
  let port: MessagePort | undefined;
  let deliver: (message: In) => void = () => {};
  let waiting: Out[] = [];
  const parent = win.parent as { postMessage(message: unknown, origin: string): void } | undefined;
  const doc = [...crypto.getRandomValues(new Uint32Array(4))].map((n) => n.toString(16)).join("-");
  const send = (message: Out) => {
    if (port) port.postMessage({ ...message, s: secret });
    else waiting.push(message);
  };

  // Only marks this document as taken, as the function does in an app window.
  defineProperty(win, "__chrysalisIn", { value: undefined });
  if (parent && (parent as unknown) !== win) {
    const onInit = (event: MessageEvent) => {
      const data = event.data;
      if (event.source !== parent || !data || data.chrysalis !== 1 || data.t !== "init" || data.doc !== doc) return;
      const given = event.ports[0];
      if (!given) return;
      event.stopImmediatePropagation();
      win.removeEventListener("message", onInit, true);
      port = given;
      port.onmessage = (e) => deliver(e.data as In);
      const queued = waiting;
      waiting = [];
      for (const message of queued) send(message);
    };
    win.addEventListener("message", onInit, true);
    const hello = () => {
      if (port) return;
      parent.postMessage({ chrysalis: 1, t: "hello", doc }, "*");
      later(hello, HELLO_EVERY_MS);
    };
    hello();
  }
  return {
    send,
    onMessage(handler) {
      deliver = handler;
      send({ t: "hello" });
    },
  };
}

/** Numbers the page's requests and hands each answer to the one that waits for it. */
export class Exchange {
  #next = 1;
  #waiting = new Map<number, (message: In) => void>();
  #others = new Map<string, (message: In) => void>();
  readonly send: (message: Out) => void;

  constructor(wire: Wire) {
    this.send = wire.send;
    wire.onMessage((message) => {
      if (!message || typeof message !== "object") return;
      if (typeof message.id === "number") this.#waiting.get(message.id)?.(message);
      else this.#others.get(message.t)?.(message);
    });
  }

  open(handler: (message: In) => void): number {
    const id = this.#next++;
    this.#waiting.set(id, handler);
    return id;
  }

  close(id: number) {
    this.#waiting.delete(id);
  }

  /** For messages that carry no id. */
  on(type: string, handler: (message: In) => void) {
    this.#others.set(type, handler);
  }
}

/** Shows an error the way an uncaught one shows, without stopping what is going on. */
export function report(error: unknown) {
  later(() => {
    throw error;
  });
}
