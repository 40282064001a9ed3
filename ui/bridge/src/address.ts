// biome-ignore-all lint/suspicious/noShadowRestrictedNames: the natives stand in for the globals on purpose.
import { TypeError, URL } from "./natives";

export type Target =
  /** `/v1/…`, answered by the engine */
  | { kind: "engine"; path: string; href: string }
  /** a file of the app, relative to its root, without a leading slash */
  | { kind: "file"; path: string; href: string }
  /** `blob:` and `data:`, answered inside the page */
  | { kind: "local"; href: string };

export interface Place {
  /** The document's own address. */
  href: string;
  /** `/frame/<token>` or empty. */
  base: string;
}

/**
 * Where a request of the page may go. Throws a TypeError that names the rule for everything else. Compares scheme and
 * host, not `origin`: an app window's scheme has the origin `null` in some engines.
 */
export function targetOf(input: string, place: Place): Target {
  let url: URL;
  try {
    url = new URL(input, place.href);
  } catch {
    throw new TypeError(`"${input}" is not an address.`);
  }
  if (url.protocol === "blob:" || url.protocol === "data:") return { kind: "local", href: url.href };
  const own = new URL(place.href);
  if (url.protocol !== own.protocol || url.host !== own.host || url.username || url.password) {
    throw new TypeError(
      `An app page may fetch only its own files and Chrysalis addresses under /v1/, not ${url.protocol}//${url.host}. ` +
        "A plugin with the network permission can reach other hosts.",
    );
  }
  let path = url.pathname;
  if (place.base && path.startsWith(`${place.base}/`)) path = path.slice(place.base.length);
  url.hash = "";
  if (path.startsWith("/v1/")) return { kind: "engine", path: path + url.search, href: url.href };
  return { kind: "file", path: path.slice(1) + url.search, href: url.href };
}

/** The http(s) address of a link that leaves the app, or null for one that stays inside. */
export function outsideLink(href: string, place: Place): string | null {
  let url: URL;
  try {
    url = new URL(href, place.href);
  } catch {
    return null;
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") return null;
  const own = new URL(place.href);
  return url.protocol === own.protocol && url.host === own.host ? null : url.href;
}
