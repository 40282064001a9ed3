// The one way from the launcher to the engine. Screens know this interface and nothing behind it:
// `backend.tauri.ts` reaches the engine through the desktop shell, `backend.web.ts` through HTTP.

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

export interface CallOptions {
  headers?: Record<string, string>;
  /** Text as it goes out; JSON callers set `content-type` themselves (see `api.ts`). */
  body?: string;
  /** Aborting stops the delivery of the answer. It does not undo what the call did. */
  signal?: AbortSignal;
}

/** One event of `GET /v1/events`. `payload` is foreign until a screen has checked it. */
export interface EngineEvent {
  type: string;
  payload: unknown;
}

export interface Backend {
  readonly kind: "desktop" | "web";
  /**
   * One request to `/v1/…`. The answer's body streams. Rejects with a `TypeError` when the engine cannot be
   * reached and with an `AbortError` when `signal` was aborted; every status of the engine is an answer.
   */
  call(method: Method, path: string, options?: CallOptions): Promise<Response>;
  /** Listens to the engine's events, reconnecting by itself, until the returned function is called. */
  events(onEvent: (event: EngineEvent) => void, onState?: (connected: boolean) => void): () => void;
  /** Opens an app: its own window on the desktop, the frame view in a browser. */
  openApp(id: string): Promise<void>;
  /** Ends the program. Only on the desktop. */
  quit?(): Promise<void>;
}

/** True inside the desktop shell's launcher webview. */
export function inDesktopShell(): boolean {
  return "__TAURI_INTERNALS__" in globalThis;
}

export async function connect(): Promise<Backend> {
  if (inDesktopShell()) return (await import("./backend.tauri")).tauriBackend();
  return (await import("./backend.web")).webBackend();
}
