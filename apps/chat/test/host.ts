// A small stand-in for the engine's `host`: a store with its 1 MiB, and a model that says what the test gives it.

type Part = { delta?: string; thinking?: string };
type Result = { text?: string; model?: string; stopped?: true; error?: string; truncated?: true };
type Answer = { parts: AsyncIterable<Part> | Part[]; result: Result | Promise<Result> };

export interface Request {
  messages: { role: string; content: string }[];
  model: string | null;
  stream: { chatId: string; name: string };
}

export const LIMIT = 1024 * 1024;

export function makeHost(answer: (request: Request) => Answer) {
  const values = new Map<string, string>();
  const puts: { key: string; value: Record<string, unknown>; at: number }[] = [];
  const logs: unknown[][] = [];
  const requests: Request[] = [];
  const state = { limit: LIMIT };
  const size = () => [...values].reduce((sum, [key, value]) => sum + Buffer.byteLength(key) + Buffer.byteLength(value), 0);
  const host = {
    log: (...parts: unknown[]) => logs.push(parts),
    store: {
      get: (key: string) => (values.has(key) ? JSON.parse(values.get(key) as string) : null),
      put(key: string, value: unknown) {
        const old = values.get(key);
        const text = JSON.stringify(value ?? null);
        values.set(key, text);
        if (size() > state.limit) {
          if (old === undefined) values.delete(key);
          else values.set(key, old);
          throw new Error("the store is full: 1048576 bytes");
        }
        puts.push({ key, value: JSON.parse(text), at: Date.now() });
      },
      delete: (key: string) => void values.delete(key),
      keys: () => [...values.keys()],
    },
    llm: {
      stream(request: Request) {
        requests.push(request);
        const { parts, result } = answer(request);
        return {
          result: Promise.resolve(result),
          async *[Symbol.asyncIterator]() {
            yield* parts;
          },
        };
      },
    },
  };
  return { host, values, puts, logs, requests, state };
}
