import { readEventStream } from "../events";
import { pageMayUse } from "./access";
import { bytesOfBase64, type PageMessage, readLink, readMessage, safeFileName } from "./messages";
import { Bucket, Pace, type PaceLimits } from "./pace";
import type { StorageWriter } from "./storage";

// The shell's end of one page load: one port, and everything that the page asked for over it. Closed as a whole when
// the page goes. Closing stops deliveries, never the work: only the page's own POST to __abort does that.

/** Bytes of an answer that may be under way before the page has acknowledged any (bridge.md). */
const CREDIT = 1024 * 1024;
/** Largest piece of an answer in one message. */
const PIECE = 64 * 1024;
const MOST_OPEN = 64;
const MOST_SOCKETS = 4;
const LARGEST_BODY = 32 * 1024 * 1024;
/** All request bodies that are still being collected, together. */
const COLLECTED = 64 * 1024 * 1024;
/** Messages that make no sense, per second in the long run and at once. They may be as large as a page likes to make them. */
const BAD_PER_SECOND = 5;
const BAD_AT_ONCE = 40;
export const LARGEST_DOWNLOAD = 64 * 1024 * 1024;

/** What the page wants to have saved. The shell shows this, outside the page, and calls one of the two. */
export interface DownloadAsk {
  name: string;
  bytes: number;
  blob: Blob;
  accept(): void;
  refuse(): void;
}
export interface LinkAsk {
  url: URL;
  done(): void;
}
export type StopReason = "flood";

export interface HostOptions {
  app: string;
  token: string;
  /** The shell page's own origin, `http://127.0.0.1:PORT`. */
  origin: string;
  port: MessagePort;
  send: typeof fetch;
  storage: StorageWriter;
  onDownload(ask: DownloadAsk): void;
  onLink(ask: LinkAsk): void;
  onStop(reason: StopReason): void;
  pace?: PaceLimits;
}

interface Request {
  abort: AbortController;
  /** Body pieces still being collected; null once the request has gone out. */
  collecting: { head: Extract<PageMessage, { t: "fetch" }>; parts: Uint8Array<ArrayBuffer>[]; bytes: number } | null;
  credit: number;
  outstanding: number;
  wake: (() => void) | null;
}

export class PageHost {
  private readonly requests = new Map<number, Request>();
  private readonly sockets = new Map<number, AbortController>();
  private readonly pace: Pace<PageMessage>;
  private readonly bad = new Bucket(BAD_PER_SECOND, BAD_AT_ONCE, performance.now());
  private collected = 0;
  private download: { id: number; name: string; size: number; parts: Uint8Array<ArrayBuffer>[]; bytes: number } | null =
    null;
  private askingDownload = false;
  private askingLink = false;
  private closed = false;
  /** Messages that made no sense. Kept for the tests and for looking at a page that misbehaves. */
  malformed = 0;

  constructor(private readonly o: HostOptions) {
    this.pace = new Pace<PageMessage>(
      (message) => this.take(message),
      () => this.stop(),
      o.pace,
    );
    o.port.onmessage = (event: MessageEvent<unknown>) => {
      if (this.closed) return;
      const message = readMessage(event.data);
      if (message) this.pace.push(message, sizeOf(message));
      else this.dropBad(event.data);
    };
    o.port.start();
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.pace.stop();
    this.o.port.onmessage = null;
    this.o.port.close();
    for (const request of this.requests.values()) {
      request.abort.abort();
      request.wake?.();
    }
    for (const socket of this.sockets.values()) socket.abort();
    this.requests.clear();
    this.sockets.clear();
    this.download = null;
  }

  /** Tells the page that a storage write did not stick. */
  storageError(which: string, op: string, key: string, message: string): void {
    this.say({ t: "storage-error", which, op, key, message });
  }

  private say(message: unknown, transfer: Transferable[] = []): void {
    if (!this.closed) this.o.port.postMessage(message, transfer);
  }

  /** Dropped and counted; a request among them is answered, so that an honest page does not wait for ever. */
  private dropBad(data: unknown): void {
    this.malformed += 1;
    const now = performance.now();
    if (!this.bad.has(1, now)) return this.stop();
    this.bad.take(1);
    const { t, id } = Object(data) as { t?: unknown; id?: unknown };
    if (t === "fetch" && Number.isSafeInteger(id)) {
      this.say({ t: "error", id, message: "this request has a part that does not travel, or one that is too long" });
    }
  }

  private stop(): void {
    if (this.closed) return;
    this.close();
    this.o.onStop("flood");
  }

  private take(message: PageMessage): void {
    switch (message.t) {
      case "hello":
        return;
      case "fetch":
        return this.begin(message);
      case "body":
        return this.collect(message.id, message.data, message.last, true);
      case "abort":
        return this.drop(message.id);
      case "ack":
        return this.acknowledge(message.id, message.n);
      case "ws":
        return void this.listen(message.id, message.url);
      case "ws-close":
        return this.hangUp(message.id);
      case "storage":
        return this.o.storage.write(message);
      case "download":
        return this.beginDownload(message.id, message.name, message.size);
      case "data":
        return this.collectDownload(message.id, message.data, message.last);
      case "link":
        return this.askLink(message.url);
    }
  }

  // Requests

  private begin(head: Extract<PageMessage, { t: "fetch" }>): void {
    const { id } = head;
    if (this.requests.has(id)) {
      this.malformed += 1;
      return;
    }
    if (this.requests.size >= MOST_OPEN) {
      this.say({ t: "error", id, message: `more than ${MOST_OPEN} requests at once` });
      return;
    }
    const request: Request = {
      abort: new AbortController(),
      collecting: { head, parts: [], bytes: 0 },
      credit: CREDIT,
      outstanding: 0,
      wake: null,
    };
    this.requests.set(id, request);
    this.collect(id, head.body, !head.more, head.b64);
  }

  /** One piece of a body. The first may be text; those in `body` messages are base64 (bridge.md). */
  private collect(id: number, data: string, last: boolean, b64: boolean): void {
    const request = this.requests.get(id);
    const collecting = request?.collecting;
    if (!request || !collecting) return;
    const { head } = collecting;
    if (data !== "") {
      const bytes = b64 ? bytesOfBase64(data) : new TextEncoder().encode(data);
      if (!bytes) return this.fail(id, "the request's body is not base64");
      collecting.parts.push(bytes);
      collecting.bytes += bytes.length;
      this.collected += bytes.length;
      if (collecting.bytes > LARGEST_BODY) return this.fail(id, "the request's body is over 32 MiB");
      if (this.collected > COLLECTED) return this.fail(id, "too many large requests at once");
    }
    if (!last) return;
    request.collecting = null;
    this.collected -= collecting.bytes;
    void this.send(id, request, head, collecting.bytes > 0 ? new Blob(collecting.parts) : null);
  }

  private fail(id: number, message: string): void {
    this.drop(id);
    this.say({ t: "error", id, message });
  }

  private drop(id: number): void {
    const request = this.requests.get(id);
    if (!request) return;
    this.requests.delete(id);
    this.collected -= request.collecting?.bytes ?? 0;
    request.abort.abort();
    request.wake?.();
  }

  private acknowledge(id: number, n: number): void {
    const request = this.requests.get(id);
    if (!request) return;
    // Never more than was sent: a page cannot talk itself more credit than it was given.
    const returned = Math.min(n, request.outstanding);
    request.outstanding -= returned;
    request.credit += returned;
    request.wake?.();
  }

  /** Where a page's address leads: its own files or `/v1/`, on this origin, or nowhere. */
  private target(head: Extract<PageMessage, { t: "fetch" }>): string | null {
    const own = `/frame/${this.o.token}/`;
    const { url } = head;
    const wanted = url.startsWith("/v1/") || url.startsWith(own) ? url : own + url.replace(/^\/+/, "");
    let resolved: URL;
    try {
      resolved = new URL(wanted, this.o.origin);
    } catch {
      return null;
    }
    if (resolved.origin !== this.o.origin) return null;
    const path = resolved.pathname;
    if (path.startsWith("/v1/")) return path + resolved.search;
    const readsFile = head.method === "GET" || head.method === "HEAD";
    return path.startsWith(own) && readsFile ? path + resolved.search : null;
  }

  private ask(path: string, init: RequestInit, headers: [string, string][]): Promise<Response> {
    return this.o.send(path, {
      ...init,
      headers: [...headers, ["X-Chrysalis-Frame", this.o.token], ["X-Chrysalis-Request", "1"]],
      credentials: "omit",
      redirect: "error",
      referrerPolicy: "no-referrer",
    });
  }

  private async send(
    id: number,
    request: Request,
    head: Extract<PageMessage, { t: "fetch" }>,
    body: Blob | null,
  ): Promise<void> {
    const path = this.target(head);
    if (!path) return this.fail(id, "pages reach only /v1/ and their own files");
    const route = path.split("?")[0] ?? "";
    if (route.startsWith("/v1/") && !pageMayUse(this.o.app, head.method, route)) {
      return this.forbid(id, request, head.method, route);
    }
    // A value too large for a message comes as a request; it must not overtake the writes made before it.
    if (route.endsWith("/__storage")) await this.o.storage.flush();
    if (request.abort.signal.aborted) return;
    const carriesBody = head.method !== "GET" && head.method !== "HEAD";
    try {
      const answer = await this.ask(
        path,
        { method: head.method, body: carriesBody ? body : null, signal: request.abort.signal },
        head.headers,
      );
      const { status, statusText } = answer;
      this.say({ t: "head", id, status, statusText, headers: [...answer.headers] });
      if (answer.body) await this.deliver(id, request, answer.body);
      if (!request.abort.signal.aborted) this.say({ t: "end", id });
    } catch (error) {
      if (!request.abort.signal.aborted)
        this.say({ t: "error", id, message: `the engine did not answer: ${String(error)}` });
    } finally {
      if (this.requests.get(id) === request) this.requests.delete(id);
    }
  }

  /** Answers as the engine would, without asking it, and has it written down. */
  private forbid(id: number, request: Request, method: string, path: string): void {
    if (this.requests.get(id) === request) this.requests.delete(id);
    const body = JSON.stringify({ error: `app:${this.o.app} may not use ${method} ${path}`, code: "refused" });
    const headers: [string, string][] = [["content-type", "application/json"]];
    this.say({ t: "head", id, status: 403, statusText: "Forbidden", headers });
    this.say({ t: "chunk", id, bytes: new TextEncoder().encode(body) });
    this.say({ t: "end", id });
    const note = { method: "POST", body: JSON.stringify({ method, path: path.slice(0, 300) }) };
    this.ask(`/v1/apps/${this.o.app}/__refused`, note, [["content-type", "application/json"]]).catch(() => {});
  }

  private async deliver(id: number, request: Request, body: ReadableStream<Uint8Array>): Promise<void> {
    const reader = body.getReader();
    const aborted = () => request.abort.signal.aborted;
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done || aborted()) return;
        for (let from = 0; from < value.length; ) {
          while (request.credit === 0 && !aborted()) {
            await new Promise<void>((wake) => {
              request.wake = wake;
            });
          }
          if (aborted()) return;
          const bytes = value.slice(from, from + Math.min(PIECE, request.credit));
          from += bytes.length;
          request.credit -= bytes.length;
          request.outstanding += bytes.length;
          this.say({ t: "chunk", id, bytes }, [bytes.buffer]);
        }
      }
    } finally {
      if (aborted()) void reader.cancel().catch(() => undefined);
    }
  }

  // Events, as a WebSocket on /v1/ws would tell them

  private async listen(id: number, url: string): Promise<void> {
    let path: string;
    try {
      path = new URL(url, this.o.origin).pathname;
    } catch {
      path = "";
    }
    if (path !== "/v1/ws" || this.sockets.has(id) || this.sockets.size >= MOST_SOCKETS) {
      this.say({ t: "ws", id, event: "error" });
      this.say({ t: "ws", id, event: "close" });
      return;
    }
    const stop = new AbortController();
    this.sockets.set(id, stop);
    try {
      const answer = await this.ask("/v1/events", { method: "GET", signal: stop.signal }, [
        ["accept", "text/event-stream"],
      ]);
      if (answer.ok && answer.body) {
        this.say({ t: "ws", id, event: "open" });
        for await (const data of readEventStream(answer.body)) {
          if (stop.signal.aborted) return;
          this.say({ t: "ws", id, event: "message", data });
        }
      } else {
        this.say({ t: "ws", id, event: "error" });
      }
    } catch {
      if (!stop.signal.aborted) this.say({ t: "ws", id, event: "error" });
    }
    if (this.sockets.get(id) === stop) {
      this.sockets.delete(id);
      this.say({ t: "ws", id, event: "close" });
    }
  }

  private hangUp(id: number): void {
    const socket = this.sockets.get(id);
    if (!socket) return;
    this.sockets.delete(id);
    socket.abort();
    this.say({ t: "ws", id, event: "close" });
  }

  // Downloads and links: the page proposes, the person decides outside the page, one at a time

  private beginDownload(id: number, name: string, size: number): void {
    if (this.download || this.askingDownload) return this.refuse(id, "another download is waiting for an answer");
    if (size > LARGEST_DOWNLOAD) return this.refuse(id, "the file is over 64 MiB");
    this.download = { id, name: safeFileName(name), size, parts: [], bytes: 0 };
  }

  private refuse(id: number, message: string): void {
    this.say({ t: "download-refused", id, message });
  }

  private collectDownload(id: number, data: string, last: boolean): void {
    const download = this.download;
    if (!download || download.id !== id) return;
    const bytes = bytesOfBase64(data);
    if (!bytes || download.bytes + bytes.length > download.size) {
      this.download = null;
      return this.refuse(id, bytes ? "the file is larger than it said" : "the file's data is not base64");
    }
    download.parts.push(bytes);
    download.bytes += bytes.length;
    if (!last) return;
    this.download = null;
    this.askingDownload = true;
    const answer = (message: unknown) => {
      if (!this.askingDownload) return;
      this.askingDownload = false;
      this.say(message);
    };
    this.o.onDownload({
      name: download.name,
      bytes: download.bytes,
      // Never the page's own type: a browser must save these bytes, not show them.
      blob: new Blob(download.parts, { type: "application/octet-stream" }),
      accept: () => answer({ t: "download-done", id }),
      refuse: () => answer({ t: "download-refused", id, message: "the person said no" }),
    });
  }

  private askLink(text: string): void {
    const url = readLink(text);
    if (!url || this.askingLink) return;
    this.askingLink = true;
    this.o.onLink({
      url,
      done: () => {
        this.askingLink = false;
      },
    });
  }
}

function sizeOf(message: PageMessage): number {
  switch (message.t) {
    case "fetch":
      return message.url.length + message.body.length;
    case "body":
    case "data":
      return message.data.length;
    case "storage":
      return message.key.length + message.value.length;
    case "link":
      return message.url.length;
    default:
      return 0;
  }
}
