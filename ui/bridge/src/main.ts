// The one script that is injected first into every page of an app. It gives the page what it may have (requests to the
// engine and to its own files, storage, downloads, links) and nothing else exists to it: its policy allows no
// connection at all. The messages are written down in docs/apps.md; the walls are the engine's, not this script's.

import type { Place } from "./address";
import { mapAssets } from "./assets";
import { patchClipboard } from "./clipboard";
import { trackBlobs, watchLinks } from "./downloads";
import { makeFetch } from "./fetch";
import { defineProperty } from "./natives";
import { makeEventSource, makeWebSocket } from "./sources";
import { makeStorage, reportStorage, StorageWrites } from "./storage";
import { type Boot, Exchange, openWire, type PageWindow } from "./wire";
import { makeXhr } from "./xhr";

/** Ways to reach a network that no policy of the page names. A fresh `about:blank` child could bring them back. */
const REMOVED = [
  "RTCPeerConnection",
  "webkitRTCPeerConnection",
  "mozRTCPeerConnection",
  "RTCDataChannel",
  "RTCIceTransport",
  "RTCDtlsTransport",
  "RTCSctpTransport",
  "RTCCertificate",
  "RTCSessionDescription",
  "RTCIceCandidate",
  "WebTransport",
  "WebSocketStream",
];

function install(win: Window & typeof globalThis, boot: Boot) {
  const exchange = new Exchange(openWire(win as unknown as PageWindow, boot));
  const place = (): Place => ({ href: win.document.baseURI, base: boot.base });
  const blobs = trackBlobs();
  const fetch = makeFetch(exchange, place, blobs);
  const writes = new StorageWrites(exchange, fetch, boot.app, reportStorage);

  win.addEventListener("pagehide", () => writes.flush());

  const put = (target: object, name: string, value: unknown) =>
    defineProperty(target, name, { value, writable: true, configurable: true, enumerable: true });
  const get = (target: object, name: string, read: () => unknown) =>
    defineProperty(target, name, { get: read, set() {}, configurable: true, enumerable: true });

  for (const name of REMOVED) {
    if (name in win) put(win, name, undefined);
  }
  // An app may be installed under another id than its author's: its own routes are under /v1/apps/<this id>/.
  put(win, "chrysalis", Object.freeze({ app: boot.app }));
  put(win, "fetch", fetch);
  put(
    win,
    "EventSource",
    makeEventSource(fetch, () => win.document.baseURI),
  );
  put(win, "WebSocket", makeWebSocket(exchange, place));
  put(win, "XMLHttpRequest", makeXhr(fetch));
  put(win.navigator, "sendBeacon", (url: string | URL, body: BodyInit | null = null) => {
    fetch(url, { method: "POST", body }).catch(() => {});
    return true;
  });
  const prototype = win.Storage?.prototype ?? {};
  for (const which of ["local", "session"] as const) {
    const storage = makeStorage(which, boot.storage[which], boot.quota, (m) => writes.write(m), prototype);
    get(win, `${which}Storage`, () => storage);
  }
  get(win.document, "cookie", () => "");
  watchLinks(win, exchange, fetch, blobs, place);
  patchClipboard(win);
  if (boot.transport === "frame") mapAssets(win, boot.base);
}

const scope = globalThis as unknown as { __chrysalisBoot?: Boot };
const boot = scope.__chrysalisBoot;
delete scope.__chrysalisBoot;
// A page that asks for this script again gets it, with a boot record of its own; the first one stays in charge.
if (boot && !Object.hasOwn(globalThis, "__chrysalisIn")) install(window, boot);
