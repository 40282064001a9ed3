// biome-ignore-all lint/suspicious/noShadowRestrictedNames: the natives stand in for the globals on purpose.
import { outsideLink, type Place, targetOf } from "./address";
import { type Fetch, localBlob, sendPieces } from "./fetch";
import { Blob, console, Map, Uint8Array, URL } from "./natives";
import type { Exchange } from "./wire";

const MAX_DOWNLOAD = 64 * 1024 * 1024;

/** What `blob:` addresses hold: the page's policy stops even the page from reading them back. */
export function trackBlobs(): ReadonlyMap<string, Blob> {
  const blobs = new Map<string, Blob>();
  const create = URL.createObjectURL.bind(URL);
  const revoke = URL.revokeObjectURL.bind(URL);
  URL.createObjectURL = (object: Blob | MediaSource) => {
    const address = create(object);
    if (object instanceof Blob) blobs.set(address, object);
    return address;
  };
  URL.revokeObjectURL = (address: string) => {
    blobs.delete(String(address));
    revoke(address);
  };
  return blobs;
}

/** Offers a file to the person, who decides outside the page. */
export async function offerDownload(exchange: Exchange, name: string, blob: Blob) {
  if (blob.size > MAX_DOWNLOAD) {
    console.error(`Chrysalis: "${name}" has ${blob.size} bytes; a download may have 64 MiB.`);
    return;
  }
  let refused = false;
  const bytes = new Uint8Array(await blob.arrayBuffer());
  const id = exchange.open((message) => {
    if (message.t !== "download-done" && message.t !== "download-refused") return;
    refused = true;
    exchange.close(id);
    if (message.t === "download-refused") console.warn(`Chrysalis: not saved: ${message.message ?? name}`);
  });
  exchange.send({ t: "download", id, name: name.slice(0, 255), mime: blob.type, size: blob.size });
  await sendPieces(bytes, (data, last) => {
    if (refused) return false;
    exchange.send({ t: "data", id, data, last });
    return true;
  });
}

/** Clicks on links: files to save and addresses outside both go to the host, which asks the person. */
export function watchLinks(
  win: Window & typeof globalThis,
  exchange: Exchange,
  fetch: Fetch,
  blobs: ReadonlyMap<string, Blob>,
  place: () => Place,
) {
  const openOutside = (href: string) => exchange.send({ t: "link", url: href });

  const follow = (event: Event, link: Element) => {
    if (event.defaultPrevented) return;
    const written = link.getAttribute("href") ?? link.getAttributeNS("http://www.w3.org/1999/xlink", "href");
    if (written === null) return;
    const name = link.getAttribute("download");
    const outside = outsideLink(written, place());
    if (outside) {
      event.preventDefault();
      openOutside(outside);
    } else if (name !== null) {
      event.preventDefault();
      void save(written, name).catch((error) => console.error("Chrysalis: the download failed.", error));
    }
  };

  const save = async (written: string, name: string) => {
    const target = targetOf(written, place());
    if (target.kind === "local") {
      const blob = localBlob(target.href, blobs);
      if (blob) await offerDownload(exchange, name || "download", blob);
      return;
    }
    const response = await fetch(target.href);
    if (!response.ok) throw new Error(`${target.href} answered ${response.status}`);
    const last = target.path.split(/[?#]/, 1)[0]?.split("/").pop();
    await offerDownload(exchange, name || last || "download", await response.blob());
  };

  // The bubble phase of the window comes last: a page that handles its own links has done so by then.
  const onClick = (event: MouseEvent) => {
    if (event.button > 1) return;
    for (const node of event.composedPath()) {
      if (node instanceof win.Element && /^(a|area)$/i.test(node.localName)) return follow(event, node);
    }
  };
  win.addEventListener("click", onClick);
  win.addEventListener("auxclick", onClick);

  // The usual way to save a file clicks a link that is in no document, so that no event reaches the window.
  const anchor = win.HTMLAnchorElement.prototype;
  const nativeClick = win.HTMLElement.prototype.click;
  const nativeDispatch = win.EventTarget.prototype.dispatchEvent;
  const followedAfter = (link: HTMLAnchorElement, act: () => unknown) => {
    if (link.isConnected) return act();
    const once = (event: Event) => follow(event, link);
    link.addEventListener("click", once, { once: true });
    try {
      return act();
    } finally {
      link.removeEventListener("click", once);
    }
  };
  anchor.click = function () {
    followedAfter(this, () => nativeClick.call(this));
  };
  anchor.dispatchEvent = function (event) {
    const act = () => nativeDispatch.call(this, event);
    return event.type === "click" ? (followedAfter(this, act) as boolean) : act();
  };

  // Popups are denied; an outside address asked for this way is a link like any other.
  win.open = ((url?: string | URL) => {
    const outside = url === undefined ? null : outsideLink(String(url), place());
    if (outside) openOutside(outside);
    return null;
  }) as typeof win.open;
}
