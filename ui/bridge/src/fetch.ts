// biome-ignore-all lint/suspicious/noShadowRestrictedNames: the natives stand in for the globals on purpose.
import { type Place, targetOf } from "./address";
import { multipart } from "./multipart";
import {
  Blob,
  base64,
  console,
  DOMException,
  defineProperty,
  Headers,
  nextTask,
  Promise,
  ReadableStream,
  Request,
  Response,
  stringify,
  TypeError,
  Uint8Array,
  unbase64,
  utf8,
  wellFormed,
} from "./natives";
import type { Exchange, In } from "./wire";

const MAX_BODY = 32 * 1024 * 1024;
/** Bytes per `body` or `data` message: 192 KiB as base64, under the 256 KiB that an IPC message may have. */
export const PIECE = 144 * 1024;
/** A text body up to this many UTF-16 units goes as it is; three bytes each still fit one message, escapes too. */
const INLINE_TEXT = 40_000;
/** Consumed bytes are reported in steps of this size: an eighth of the credit that each answer starts with. */
const ACK_STEP = 128 * 1024;
const HEADERS_THAT_TRAVEL = ["content-type", "accept", "accept-language", "range", "cache-control", "if-none-match"];

export type Fetch = (input: RequestInfo | URL, init?: RequestInit) => Promise<Response>;

export function makeFetch(exchange: Exchange, place: () => Place, blobs: ReadonlyMap<string, Blob>): Fetch {
  return (input, init) =>
    new Promise<Response>((resolve, reject) => {
      const given = input instanceof Request;
      const target = targetOf(given ? input.url : String(input), place());
      const form = init?.body instanceof FormData ? multipart(init.body) : null;
      const request = new Request(given ? input : target.href, form ? { ...init, body: form.body } : init);
      if (form && !new Headers(init?.headers ?? (given ? input.headers : [])).has("content-type")) {
        request.headers.set("content-type", form.type);
      }
      if (target.kind === "local") return resolve(localAnswer(target.href, blobs));
      if (target.kind === "file" && request.method !== "GET" && request.method !== "HEAD") {
        throw new TypeError(
          `${request.method} is not possible on a file of the app; plugin routes are under /v1/apps/.`,
        );
      }
      const call = new Call(exchange, request, target.href, resolve, reject);
      const text = init?.body;
      if (typeof text === "string" && text.length <= INLINE_TEXT) call.start(target.path, wellFormed(text));
      else if (request.body === null || request.method === "GET" || request.method === "HEAD") {
        call.start(target.path, null);
      } else {
        (form?.body ?? request).arrayBuffer().then(
          (body) => call.start(target.path, new Uint8Array(body)),
          (error) => call.fail(error),
        );
      }
    });
}

/** One request: its promise, its body as a stream, its abort. */
class Call {
  #id = 0;
  #settled = false;
  #done = false;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  #queue: Uint8Array[] = [];
  #wanted = false;
  #over: { error?: unknown } | undefined;
  #owed = 0;

  constructor(
    private readonly exchange: Exchange,
    private readonly request: Request,
    private readonly href: string,
    private readonly resolve: (response: Response) => void,
    private readonly reject: (error: unknown) => void,
  ) {
    const signal = request.signal;
    if (signal.aborted) this.fail(reasonOf(signal));
    else signal.addEventListener("abort", this.#onAbort);
  }

  start(url: string, body: string | Uint8Array | null) {
    if (this.#done) return;
    const bytes = typeof body === "string" || !body?.length ? null : body;
    if (bytes && bytes.length > MAX_BODY) {
      return this.fail(
        new TypeError(`The request body has ${bytes.length} bytes; an app page may send 32 MiB at once.`),
      );
    }
    const headers: [string, string][] = [];
    for (const name of HEADERS_THAT_TRAVEL) {
      const value = this.request.headers.get(name);
      if (value !== null) headers.push([name, value]);
    }
    this.#id = this.exchange.open(this.#onMessage);
    // Files exist for GET only; a HEAD of one is a GET whose body is not read.
    const method = url.startsWith("/") ? this.request.method : "GET";
    const head = { t: "fetch", id: this.#id, method, url, headers } as const;
    if (!bytes) this.exchange.send(typeof body === "string" && body ? { ...head, body } : head);
    else if (bytes.length <= PIECE / 2) this.exchange.send({ ...head, body: base64(bytes), b64: true });
    else {
      this.exchange.send({ ...head, more: true });
      void sendPieces(bytes, (data, last) => {
        if (this.#done) return false;
        this.exchange.send({ t: "body", id: this.#id, data, last });
        return true;
      });
    }
  }

  fail(error: unknown) {
    this.#finish();
    if (!this.#settled) {
      this.#settled = true;
      this.reject(error);
    } else if (this.#controller && !this.#over) {
      // What had arrived is still handed out; the error comes after it.
      this.#over = { error };
      this.#give();
    }
  }

  #finish() {
    this.#done = true;
    this.request.signal.removeEventListener("abort", this.#onAbort);
    if (this.#id) this.exchange.close(this.#id);
  }

  #onAbort = () => {
    const error = reasonOf(this.request.signal);
    if (this.#id && !this.#done) this.exchange.send({ t: "abort", id: this.#id });
    // An abort, unlike a broken connection, drops what has not been read: so does the platform.
    this.#queue = [];
    this.fail(error);
  };

  #onMessage = (message: In) => {
    if (message.t === "head") this.#head(message);
    else if (message.t === "chunk") this.#chunk(message);
    else if (message.t === "end") this.#end();
    else if (message.t === "error") this.fail(new TypeError(String(message.message)));
  };

  #head(message: In) {
    if (this.#settled) return;
    const status = Number(message.status);
    if ([301, 302, 303, 307, 308].includes(status)) {
      this.exchange.send({ t: "abort", id: this.#id });
      return this.fail(new TypeError("The answer is a redirect; pages in Chrysalis are never redirected."));
    }
    const empty = this.request.method === "HEAD" || status === 204 || status === 205 || status === 304;
    let response: Response;
    try {
      const stream = empty ? null : this.#stream();
      response = new Response(stream, {
        status,
        statusText: String(message.statusText ?? ""),
        headers: new Headers(message.headers as [string, string][]),
      });
    } catch (error) {
      this.exchange.send({ t: "abort", id: this.#id });
      return this.fail(error);
    }
    defineProperty(response, "url", { value: this.href, enumerable: true });
    this.#settled = true;
    this.resolve(response);
    if (empty) {
      // There may be a body to come (a file's, for HEAD); nobody will read it.
      if (this.request.method === "HEAD") this.exchange.send({ t: "abort", id: this.#id });
      this.#finish();
    }
  }

  #stream() {
    return new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller;
        },
        pull: () => {
          this.#wanted = true;
          this.#give();
        },
        cancel: () => {
          if (!this.#done) this.exchange.send({ t: "abort", id: this.#id });
          this.#over = {};
          this.#queue = [];
          this.#finish();
        },
      },
      // Nothing is read ahead: a byte counts as consumed when the page asks for it.
      { highWaterMark: 0 },
    );
  }

  #chunk(message: In) {
    if (this.#over) return;
    let bytes: Uint8Array;
    try {
      bytes =
        typeof message.text === "string"
          ? utf8(message.text)
          : message.bytes instanceof Uint8Array
            ? message.bytes
            : unbase64(String(message.b64));
    } catch {
      this.exchange.send({ t: "abort", id: this.#id });
      return this.fail(new TypeError("The answer arrived damaged."));
    }
    if (!bytes.length) return;
    this.#queue.push(bytes);
    this.#give();
  }

  #end() {
    this.#finish();
    if (!this.#settled) return this.fail(new TypeError("The connection ended before the answer began."));
    this.#over ??= {};
    this.#give();
  }

  #give() {
    const controller = this.#controller;
    if (!controller) return;
    if (this.#queue.length && this.#wanted) {
      this.#wanted = false;
      const bytes = joined(this.#queue);
      this.#queue = [];
      this.#owed += bytes.length;
      if (!this.#done && this.#owed >= ACK_STEP) {
        this.exchange.send({ t: "ack", id: this.#id, n: this.#owed });
        this.#owed = 0;
      }
      controller.enqueue(bytes);
    }
    if (this.#over && !this.#queue.length) {
      this.#controller = undefined;
      if ("error" in this.#over) controller.error(this.#over.error);
      else controller.close();
    }
  }
}

function joined(parts: Uint8Array[]): Uint8Array {
  if (parts.length === 1) return parts[0] as Uint8Array;
  let size = 0;
  for (const part of parts) size += part.length;
  const all = new Uint8Array(size);
  size = 0;
  for (const part of parts) {
    all.set(part, size);
    size += part.length;
  }
  return all;
}

/** Sends bytes as base64 pieces, giving the host and the page a turn every few of them. Stops when `send` says so. */
export async function sendPieces(bytes: Uint8Array, send: (data: string, last: boolean) => boolean) {
  let at = 0;
  for (let n = 1; ; n++) {
    const piece = bytes.subarray(at, at + PIECE);
    at += PIECE;
    if (!send(base64(piece), at >= bytes.length) || at >= bytes.length) return;
    if (n % 4 === 0) await nextTask(4);
  }
}

function reasonOf(signal: AbortSignal): unknown {
  return signal.reason ?? new DOMException("The operation was aborted.", "AbortError");
}

/** `blob:` and `data:` addresses: the page's policy lets no request out, not even these. */
function localAnswer(href: string, blobs: ReadonlyMap<string, Blob>): Response {
  const blob = localBlob(href, blobs);
  if (!blob) throw new TypeError("There is nothing behind this address any more.");
  const response = new Response(blob, { headers: { "content-type": blob.type } });
  defineProperty(response, "url", { value: href, enumerable: true });
  return response;
}

/** What a `blob:` or `data:` address holds, or undefined. */
export function localBlob(href: string, blobs: ReadonlyMap<string, Blob>): Blob | undefined {
  if (href.startsWith("blob:")) return blobs.get(href.split("#", 1)[0] as string);
  const comma = href.indexOf(",");
  if (!href.startsWith("data:") || comma < 0) return undefined;
  const meta = href.slice(5, comma);
  const isBase64 = /;\s*base64\s*$/i.test(meta);
  const type = meta.replace(/;\s*base64\s*$/i, "") || "text/plain;charset=US-ASCII";
  try {
    const body = percentDecoded(href.slice(comma + 1).split("#", 1)[0] as string);
    return new Blob([isBase64 ? unbase64(new TextDecoder().decode(body).replace(/\s/g, "")) : body], { type });
  } catch (error) {
    console.warn("Chrysalis: this data: address cannot be read.", error);
    return undefined;
  }
}

function percentDecoded(text: string): Uint8Array<ArrayBuffer> {
  const bytes = utf8(text);
  let length = 0;
  for (let i = 0; i < bytes.length; i++) {
    const hex = bytes[i] === 37 ? text16(bytes, i) : -1;
    if (hex >= 0) i += 2;
    bytes[length++] = hex >= 0 ? hex : (bytes[i] as number);
  }
  return bytes.slice(0, length);
}

function text16(bytes: Uint8Array, at: number): number {
  const digits = String.fromCharCode(bytes[at + 1] ?? 0, bytes[at + 2] ?? 0);
  return /^[0-9a-f]{2}$/i.test(digits) ? Number.parseInt(digits, 16) : -1;
}

/** Whether a message fits one IPC message as it is (256 KiB, in UTF-8, of JSON). */
export function fitsOneMessage(message: object): boolean {
  return stringify(message).length <= 80_000;
}
