import type { Backend } from "../../backend";

/** Sounds and pictures reach the page as blobs: the desktop's webview has no address for what the engine keeps. */

const SOUND = /^data:(audio\/[a-z0-9.+-]{1,60})(?:;[^,;]{1,60})*;base64,([A-Za-z0-9+/=\s]+)$/i;
const PICTURES = ["image/png", "image/jpeg", "image/webp", "image/gif", "image/avif"];
const ASSET = /^\/v1\/assets\/[A-Za-z0-9._~-]{1,200}$/;

/** The sound of a `data:` address; null when it is none. */
export function soundOf(dataUrl: string): Blob | null {
  const match = SOUND.exec(dataUrl);
  if (!match) return null;
  try {
    const bytes = Uint8Array.from(atob((match[2] ?? "").replace(/\s/g, "")), (c) => c.charCodeAt(0));
    return new Blob([bytes], { type: match[1] ?? "" });
  } catch {
    return null;
  }
}

/** A picture that the engine keeps; null when it is none that can be shown. */
export async function pictureAt(backend: Backend, url: string): Promise<Blob | null> {
  if (!ASSET.test(url)) return null;
  const answer = await backend.call("GET", url);
  if (!answer.ok) return null;
  const type = (answer.headers.get("content-type") ?? "").split(";")[0]?.trim().toLowerCase() ?? "";
  return PICTURES.includes(type) ? new Blob([await answer.arrayBuffer()], { type }) : null;
}
