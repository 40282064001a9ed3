// biome-ignore-all lint/suspicious/noShadowRestrictedNames: the natives stand in for the globals on purpose.
// What the bridge needs of the platform, taken before any script of the page has run, so that a page (or a library in
// it) that replaces globals later does not break its own bridge. This is robustness, not a wall: the page owns this
// realm, and the engine checks everything again.

export const {
  Promise,
  Uint8Array,
  Map,
  URL,
  Request,
  Response,
  Headers,
  Blob,
  ReadableStream,
  TextDecoder,
  DOMException,
  TypeError,
  EventTarget,
  Event,
  MessageEvent,
  JSON,
  console,
} = globalThis;

export const { defineProperty } = Object;
export const { isArray } = Array;
export const stringify = JSON.stringify;
export const later = globalThis.setTimeout.bind(globalThis);
export const forget = globalThis.clearTimeout.bind(globalThis);
export const nextTask = (ms = 0) => new Promise<void>((done) => later(done, ms));

const toBase64 = globalThis.btoa.bind(globalThis);
const fromBase64 = globalThis.atob.bind(globalThis);
const fromCharCode = String.fromCharCode;
const encoder = new TextEncoder();

export function utf8(text: string): Uint8Array<ArrayBuffer> {
  return encoder.encode(text) as Uint8Array<ArrayBuffer>;
}

/** Lone surrogates become U+FFFD: they cannot travel as UTF-8, and a value must read back as it was written. */
export function wellFormed(text: string): string {
  return /[\uD800-\uDFFF]/.test(text) ? new TextDecoder().decode(encoder.encode(text)) : text;
}

export function base64(bytes: Uint8Array): string {
  let binary = "";
  // 32 Ki arguments per call is what every engine's stack allows.
  for (let at = 0; at < bytes.length; at += 0x8000) {
    binary += fromCharCode.apply(null, bytes.subarray(at, at + 0x8000) as unknown as number[]);
  }
  return toBase64(binary);
}

/** Throws the platform's `InvalidCharacterError` for text that is not base64. */
export function unbase64(text: string): Uint8Array<ArrayBuffer> {
  const binary = fromBase64(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}
