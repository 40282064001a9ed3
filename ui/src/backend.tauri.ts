import { Channel, invoke } from "@tauri-apps/api/core";
import type { Backend, CallOptions, Method } from "./backend";
import { followEvents } from "./events";

/** What the shell's `call` command sends back through its channel, in this order. */
export type Piece =
  | { t: "head"; status: number; headers: [string, string][] | Record<string, string> }
  | { t: "chunk"; b64: string }
  | { t: "end" }
  | { t: "error"; message: string };

/** Statuses whose answers have no body; `Response` refuses to be made with one. */
const WITHOUT_BODY = new Set([204, 205, 304]);

/** Starts anywhere: calls of a launcher that was reloaded may still be under way in the shell under their numbers. */
let lastCall = (crypto.getRandomValues(new Uint32Array(1))[0] ?? 0) * 1_000_000;

function bytesOf(b64: string): Uint8Array {
  const binary = atob(b64);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

function call(method: Method, path: string, options: CallOptions = {}): Promise<Response> {
  const { signal } = options;
  if (signal?.aborted) return Promise.reject(new DOMException("aborted", "AbortError"));
  lastCall += 1;
  const id = lastCall;
  return new Promise<Response>((resolve, reject) => {
    let sink: ReadableStreamDefaultController<Uint8Array> | null = null;
    let over = false;
    const cancel = () => {
      if (over) return;
      over = true;
      void invoke("cancel", { id }).catch(() => undefined);
    };
    const fail = (reason: unknown) => {
      over = true;
      reject(reason);
      sink?.error(reason);
    };
    signal?.addEventListener(
      "abort",
      () => {
        if (over) return;
        cancel();
        fail(new DOMException("aborted", "AbortError"));
      },
      { once: true },
    );
    const onChunk = new Channel<Piece>((piece) => {
      if (over) return;
      if (piece.t === "head") {
        const body = new ReadableStream<Uint8Array>({
          start: (controller) => {
            sink = controller;
          },
          cancel,
        });
        const init = { status: piece.status, headers: new Headers(piece.headers) };
        resolve(new Response(WITHOUT_BODY.has(piece.status) ? null : body, init));
      } else if (piece.t === "chunk") {
        sink?.enqueue(bytesOf(piece.b64));
      } else if (piece.t === "end") {
        over = true;
        sink?.close();
      } else {
        fail(new TypeError(piece.message));
      }
    });
    const headers = Object.entries(options.headers ?? {});
    invoke("call", { id, method, path, headers, body: options.body ?? null, onChunk }).catch((error: unknown) => {
      if (!over) fail(new TypeError(typeof error === "string" ? error : String(error)));
    });
  });
}

/** The engine inside this program, reached through the shell's one general command. */
export function tauriBackend(): Backend {
  return {
    kind: "desktop",
    call,
    events: (onEvent, onState) => followEvents(call, onEvent, onState),
    openApp: (id) => invoke("open_app", { id }),
    quit: () => invoke("quit"),
  };
}
