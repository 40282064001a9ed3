import type { Backend, EngineEvent } from "./backend";

/** Longest event kept while it is still incomplete, in UTF-16 units. More than that is not one of the engine's. */
const LONGEST_EVENT = 4 * 1024 * 1024;
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 15_000;

/**
 * Cuts a text/event-stream into the values of its `data:` fields. Keeps what is incomplete between calls, takes LF,
 * CRLF and CR as line ends (also when a CRLF is split between two pieces), ignores comments and other fields.
 */
export class EventStreamReader {
  private rest = "";
  private data: string[] = [];
  private afterCr = false;

  push(piece: string): string[] {
    let text = piece;
    if (this.afterCr && text.length > 0) {
      if (text.startsWith("\n")) text = text.slice(1);
      this.afterCr = false;
    }
    const out: string[] = [];
    let from = 0;
    for (let at = 0; at < text.length; at++) {
      const unit = text.charCodeAt(at);
      if (unit !== 10 && unit !== 13) continue;
      this.line(this.rest + text.slice(from, at), out);
      this.rest = "";
      if (unit === 13) {
        if (at + 1 === text.length) this.afterCr = true;
        else if (text.charCodeAt(at + 1) === 10) at++;
      }
      from = at + 1;
    }
    this.rest += text.slice(from);
    if (this.rest.length > LONGEST_EVENT)
      throw new RangeError("an event of the engine was longer than 4 Mi characters");
    return out;
  }

  private line(line: string, out: string[]): void {
    if (line === "") {
      if (this.data.length > 0) out.push(this.data.join("\n"));
      this.data = [];
    } else if (line.startsWith("data:")) {
      this.data.push(line.slice(line.charCodeAt(5) === 32 ? 6 : 5));
    }
  }
}

/** The events of an answer's body, as they arrive; ends when the body ends. */
export async function* readEventStream(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const events = new EventStreamReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* events.push(decoder.decode(value, { stream: true }));
    }
  } finally {
    void reader.cancel().catch(() => undefined);
  }
}

function parseEvent(data: string): EngineEvent | null {
  try {
    const value: unknown = JSON.parse(data);
    if (typeof value !== "object" || value === null) return null;
    const { type, payload } = value as { type?: unknown; payload?: unknown };
    return typeof type === "string" ? { type, payload } : null;
  } catch {
    return null;
  }
}

/** Follows `GET /v1/events` over either backend. A 401 ends it: there is nobody to tell until somebody signs in. */
export function followEvents(
  call: Backend["call"],
  onEvent: (event: EngineEvent) => void,
  onState?: (connected: boolean) => void,
): () => void {
  const stop = new AbortController();
  void (async () => {
    let wait = FIRST_RETRY_MS;
    while (!stop.signal.aborted) {
      try {
        const answer = await call("GET", "/v1/events", {
          headers: { accept: "text/event-stream" },
          signal: stop.signal,
        });
        if (answer.status === 401 || answer.status === 403) return;
        if (answer.ok && answer.body) {
          wait = FIRST_RETRY_MS;
          onState?.(true);
          for await (const data of readEventStream(answer.body)) {
            const event = parseEvent(data);
            if (event && !stop.signal.aborted) onEvent(event);
          }
        }
      } catch {
        // Lost connections are expected; the loop tries again.
      }
      if (stop.signal.aborted) return;
      onState?.(false);
      await new Promise((done) => setTimeout(done, wait));
      wait = Math.min(wait * 2, LONGEST_RETRY_MS);
    }
  })();
  return () => stop.abort();
}
