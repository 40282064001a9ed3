import { api } from "./api";

export interface Part {
  delta?: string;
  thinking?: string;
  /** The request is sent again after a pause. */
  waiting?: { ms?: number; reason?: string };
  done?: boolean;
}

/** Until when an answer waits to be asked for again, and why. */
export interface Wait {
  until: number;
  reason: string;
}

/** The `data:` lines of an event stream, each as JSON; what is not JSON is skipped. */
export async function* events(body: ReadableStream<Uint8Array>): AsyncGenerator<Part[]> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + decoder.decode(value, { stream: true })).split(/\r?\n/);
      rest = lines.pop() ?? "";
      const parts: Part[] = [];
      for (const line of lines) {
        if (!line.startsWith("data:")) continue;
        try {
          const part: unknown = JSON.parse(line.slice(5));
          if (part !== null && typeof part === "object") parts.push(part as Part);
        } catch {
          // A line that was cut by a broken connection; the next reading starts from the beginning.
        }
      }
      if (parts.length > 0) yield parts;
    }
  } finally {
    void reader.cancel().catch(() => {});
  }
}

const pause = (ms: number) => new Promise<void>((done) => setTimeout(done, ms));

/**
 * Follows a running answer until it ends. `show` gets everything so far, from the beginning, each time something comes.
 * "ended": the engine said so. "none": there is no such stream (not begun, long over, or the engine was killed).
 */
export async function follow(
  chatId: string,
  signal: AbortSignal,
  show: (text: string, thinking: string, waiting: Wait | null) => void,
  /** how long a stream may not exist yet */
  keepAsking: () => boolean,
): Promise<"ended" | "none"> {
  let misses = 0;
  while (!signal.aborted) {
    let text = "";
    let thinking = "";
    let waiting: Wait | null = null;
    try {
      const response = await api.stream(chatId, signal);
      if (response.ok && response.body) {
        misses = 0;
        for await (const parts of events(response.body)) {
          let over = false;
          for (const part of parts) {
            text += part.delta ?? "";
            thinking += part.thinking ?? "";
            if (part.waiting) {
              waiting = { until: Date.now() + (part.waiting.ms ?? 0), reason: String(part.waiting.reason ?? "") };
            } else waiting = null;
            over ||= part.done === true;
          }
          show(text, thinking, waiting);
          if (over) return "ended";
        }
      } else {
        await response.body?.cancel();
      }
    } catch (error) {
      if (signal.aborted) throw error;
    }
    misses += 1;
    if (misses > 3 && !keepAsking()) return "none";
    await pause(Math.min(50 * misses, 500));
  }
  throw signal.reason;
}
