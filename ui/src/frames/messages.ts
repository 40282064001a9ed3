// What a page may say to the shell, read strictly. Everything here was written by the app; what does not fit is dropped.

export type PageMessage =
  | { t: "hello" }
  | {
      t: "fetch";
      id: number;
      method: string;
      url: string;
      headers: [string, string][];
      body: string;
      b64: boolean;
      more: boolean;
    }
  | { t: "body"; id: number; data: string; last: boolean }
  | { t: "abort"; id: number }
  | { t: "ack"; id: number; n: number }
  | { t: "ws"; id: number; url: string }
  | { t: "ws-close"; id: number }
  | { t: "storage"; which: "local" | "session"; op: "set" | "remove" | "clear"; key: string; value: string }
  | { t: "download"; id: number; name: string; mime: string; size: number }
  | { t: "data"; id: number; data: string; last: boolean }
  | { t: "link"; url: string };

/** Longest piece of a body in one message: 192 KiB as base64, as bridge.md has it, with room for the padding. */
export const LONGEST_PIECE = 256 * 1024 + 4;
const LONGEST_URL = 16 * 1024;
const MOST_HEADERS = 32;
const LONGEST_HEADER = 4 * 1024;
/** Storage in UTF-16 units: one value cannot be longer than the whole 2 MiB quota. */
const LONGEST_STORED = 1024 * 1024;
const METHODS = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]);
/** Request headers that travel (bridge.md). Others are left out, as a browser leaves out forbidden ones. */
const TRAVELLING = new Set(["content-type", "accept", "accept-language", "range", "cache-control", "if-none-match"]);

const text = (value: unknown, longest: number): value is string => typeof value === "string" && value.length <= longest;
const count = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
const optional = (value: unknown): boolean => value === undefined || typeof value === "boolean";

function headersOf(value: unknown): [string, string][] | null {
  if (value === undefined) return [];
  if (!Array.isArray(value) || value.length > MOST_HEADERS) return null;
  const out: [string, string][] = [];
  for (const pair of value) {
    if (!Array.isArray(pair) || pair.length !== 2) return null;
    const [name, content] = pair as unknown[];
    if (!text(name, 128) || !text(content, LONGEST_HEADER)) return null;
    // A value that `Headers` would refuse must not throw later.
    if (TRAVELLING.has(name.toLowerCase()) && /^[\t\x20-\x7e\x80-\xff]*$/.test(content)) {
      out.push([name.toLowerCase(), content]);
    }
  }
  return out;
}

/** The message, or null when it is none of those the shell knows, or is too large, or has a field of a wrong type. */
export function readMessage(value: unknown): PageMessage | null {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return null;
  const m = value as Record<string, unknown>;
  switch (m.t) {
    case "hello":
      return { t: "hello" };
    case "fetch": {
      const headers = headersOf(m.headers);
      if (!count(m.id) || !text(m.url, LONGEST_URL) || !headers) return null;
      if (typeof m.method !== "string" || !METHODS.has(m.method.toUpperCase())) return null;
      if (!(m.body === undefined || m.body === null || text(m.body, LONGEST_PIECE))) return null;
      if (!optional(m.b64) || !optional(m.more)) return null;
      return {
        t: "fetch",
        id: m.id,
        method: m.method.toUpperCase(),
        url: m.url,
        headers,
        body: m.body ?? "",
        b64: m.b64 === true,
        more: m.more === true,
      };
    }
    case "body":
    case "data":
      if (!count(m.id) || !text(m.data, LONGEST_PIECE) || !optional(m.last)) return null;
      return { t: m.t, id: m.id, data: m.data, last: m.last === true };
    case "abort":
    case "ws-close":
      return count(m.id) ? { t: m.t, id: m.id } : null;
    case "ack":
      return count(m.id) && count(m.n) ? { t: "ack", id: m.id, n: m.n } : null;
    case "ws":
      return count(m.id) && text(m.url, LONGEST_URL) ? { t: "ws", id: m.id, url: m.url } : null;
    case "storage": {
      const { which, op } = m;
      if (which !== "local" && which !== "session") return null;
      if (op !== "set" && op !== "remove" && op !== "clear") return null;
      const key = op === "clear" ? "" : m.key;
      const content = op === "set" ? m.value : "";
      if (!text(key, LONGEST_STORED) || !text(content, LONGEST_STORED)) return null;
      return { t: "storage", which, op, key, value: content };
    }
    case "download":
      if (!count(m.id) || !text(m.name, 4096) || !count(m.size)) return null;
      return { t: "download", id: m.id, name: m.name, mime: text(m.mime, 256) ? m.mime : "", size: m.size };
    case "link":
      return text(m.url, LONGEST_URL) ? { t: "link", url: m.url } : null;
    default:
      return null;
  }
}

/** The bytes of standard base64, or null when it is not. */
export function bytesOfBase64(data: string): Uint8Array<ArrayBuffer> | null {
  let binary: string;
  try {
    binary = atob(data);
  } catch {
    return null;
  }
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

const DEVICE = /^(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\.|$)/i;

/**
 * A name that is safe to save under on every system: no folders, no control or direction-changing characters, no
 * leading dot, no device names, at most 120 characters with the ending kept. Never empty.
 */
export function safeFileName(name: string): string {
  let out = name
    .normalize("NFC")
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}]/gu, "")
    .replace(/[\\/:*?"<>|]/g, "_")
    .replace(/^[.\s]+|[.\s]+$/g, "");
  const characters = [...out];
  if (characters.length > 120) {
    const dot = out.lastIndexOf(".");
    const ending = dot > 0 && out.length - dot <= 16 ? [...out.slice(dot)] : [];
    out = [...characters.slice(0, 120 - ending.length), ...ending].join("");
  }
  if (out === "") return "download";
  return DEVICE.test(out) ? `_${out}` : out;
}

/** The address, when it is a plain http(s) one without a user name, at most 2,048 characters. */
export function readLink(url: string): URL | null {
  if (url.length > 2048) return null;
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    return null;
  }
  const plain = parsed.protocol === "https:" || parsed.protocol === "http:";
  return plain && parsed.username === "" && parsed.password === "" && parsed.hostname !== "" ? parsed : null;
}
