// Reading what the engine answers. What apps, model servers and manifests put into an answer is foreign, so every list
// is checked to be a list and every text to be a text before a screen sees it.

export type Loose = Record<string, unknown>;

export const object = (value: unknown): Loose => (typeof value === "object" && value !== null ? (value as Loose) : {});

export const list = (value: unknown): Loose[] => (Array.isArray(value) ? value.map(object) : []);

export const num = (value: unknown): number | null =>
  typeof value === "number" && Number.isFinite(value) ? value : null;

export function str(value: unknown): string {
  if (typeof value === "string") return value;
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

export const texts = (value: unknown): string[] => (Array.isArray(value) ? value.map(str) : []);

/** A request to `/v1` that resolves to the answer's JSON and rejects with a `CallError`. */
export type Call = (
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE",
  path: string,
  body?: unknown,
  signal?: AbortSignal,
) => Promise<unknown>;
