// Ways out that only a desktop window could have: the program's own schemes and commands, the system's files, what a
// webview keeps by itself, and messages to the host that the page may not send. Run by tests/hostile/app/run.js, whose
// helpers `x` has. `alone` gets a load of its own. Messages show in the engine's storage, where the test looks.

const one = (name, run, more = {}) => ({ name, run, ...more });
const ALONE = { alone: true };
const steal = (name, get, more = {}) =>
  one(
    name,
    async (x) => {
      const value = await get(x);
      if (value) x.won(value);
    },
    more,
  );
const loads = (tag, attribute, url) => (x) =>
  new Promise((done) => {
    const element = x.add(tag, { [attribute]: url, rel: "stylesheet", type: tag === "object" ? "text/html" : "" });
    element.onload = element.onloadeddata = () => done(`${tag} ${url}`);
    element.onerror = () => done(false);
  });
/** A child that holds something other than nothing, or that may not even be looked into. */
const framed = (url) => (x) =>
  new Promise((done) => {
    const frame = x.add("iframe", { src: url });
    frame.addEventListener("load", () => {
      let inside = "another origin's page";
      try {
        inside = frame.contentDocument?.body?.textContent || (frame.contentWindow.location.href === url && "its page");
      } catch {}
      // What a refused child shows is an empty page of an origin of its own.
      done(inside !== "another origin's page" && inside);
    });
    setTimeout(() => done(false), 3000);
  });
const got = (name, url, init) =>
  steal(name, async (x) => {
    const response = await x.blank().fetch(url, init);
    return response.ok && (await response.text());
  });
const goes = (name, url) =>
  one(
    name,
    (x) => {
      location.href = typeof url === "function" ? url(x) : url;
    },
    ALONE,
  );
const TAURI = JSON.stringify({ cmd: "call", callback: 1, error: 2, payload: { id: 1, method: "GET", path: "/v1/me" } });

/** The page's own secret, from a second copy of its bridge script; that load is then the current one. */
const secret = () =>
  new Promise((done, fail) => {
    let boot = null;
    Object.defineProperty(globalThis, "__chrysalisBoot", {
      configurable: true,
      get: () => boot,
      set: (value) => {
        boot = value;
        done(value.secret);
      },
    });
    const script = document.createElement("script");
    // Never from the cache: only a new copy is a new load.
    script.src = `/__chrysalis/bridge.js?${Math.random()}`;
    script.onerror = () => fail(new Error("no second copy"));
    document.head.append(script);
    setTimeout(() => fail(new Error("no boot value was seen")), 3000);
  });
const store = (s, key, more = {}) => ({ t: "storage", s, which: "local", op: "set", key, value: "1", ...more });
const tell = (message) => window.ipc.postMessage(typeof message === "string" ? message : JSON.stringify(message));

globalThis.ATTEMPTS = [
  // ---- the launcher's commands
  steal("tauri-internals", () => typeof globalThis.__TAURI_INTERNALS__ !== "undefined" && "there"),
  steal("tauri-global", () => Object.keys(globalThis).find((key) => /tauri/i.test(key))),
  steal("tauri-internals-child", (x) => typeof x.blank().__TAURI_INTERNALS__ !== "undefined" && "there"),
  got("ipc-scheme-fetch", "ipc://localhost/call", { method: "POST", body: TAURI }),
  got("ipc-scheme-localhost", "http://ipc.localhost/call", { method: "POST", body: TAURI }),
  steal("ipc-scheme-image", loads("img", "src", "ipc://localhost/call")),
  steal("ipc-scheme-script", loads("script", "src", "ipc://localhost/call")),
  steal("ipc-scheme-child", framed("ipc://localhost/call")),
  goes("ipc-scheme-go", "ipc://localhost/call"),
  steal("ipc-message-of-tauri", () => new Promise((done) => {
    globalThis._1 = globalThis._2 = (value) => done(JSON.stringify(value) ?? "called");
    tell(TAURI);
    tell(JSON.stringify({ cmd: "open_app", callback: 1, error: 2, id: "victim" }));
    setTimeout(() => done(false), 2000);
  })),
  steal("ipc-handlers", () => {
    const handlers = Object.keys(globalThis.webkit?.messageHandlers ?? {});
    return handlers.filter((name) => name !== "ipc").join();
  }),
  steal("ipc-handler-of-a-child", (x) => new Promise((done) => {
    const win = x.blank();
    win.webkit?.messageHandlers?.ipc?.postMessage(TAURI);
    win.ipc?.postMessage(TAURI);
    done(false);
  })),

  // ---- the launcher's files and scheme
  steal("tauri-scheme-image", loads("img", "src", "tauri://localhost/icon.svg")),
  steal("tauri-scheme-script", loads("script", "src", "tauri://localhost/index.html")),
  steal("tauri-scheme-style", loads("link", "href", "tauri://localhost/index.css")),
  steal("tauri-scheme-child", framed("tauri://localhost/index.html")),
  got("tauri-scheme-fetch", "tauri://localhost/index.html"),
  got("tauri-localhost-fetch", "http://tauri.localhost/index.html"),
  goes("tauri-scheme-go", "tauri://localhost/index.html"),
  one("tauri-scheme-open", () => open("tauri://localhost/index.html"), ALONE),
  steal("asset-scheme-image", loads("img", "src", "asset://localhost/etc/hostname")),
  steal("asset-scheme-child", framed("asset://localhost/etc/hostname")),
  got("asset-scheme-fetch", "asset://localhost/etc/hostname"),
  goes("asset-scheme-go", "asset://localhost/etc/hostname"),

  // ---- other apps' files
  steal("app-scheme-image", loads("img", "src", "chrysalis-app://victim/secret.png")),
  steal("app-scheme-script", loads("script", "src", "chrysalis-app://victim/secret.js")),
  steal("app-scheme-style", loads("link", "href", "chrysalis-app://victim/secret.css")),
  steal("app-scheme-object", loads("object", "data", "chrysalis-app://victim/index.html")),
  steal("app-scheme-child", framed("chrysalis-app://victim/index.html")),
  got("app-scheme-fetch", "chrysalis-app://victim/secret.txt"),
  steal("app-scheme-bridge-fetch", async () => (await fetch("chrysalis-app://victim/secret.txt")).ok),
  steal("app-scheme-case", loads("img", "src", "CHRYSALIS-APP://VICTIM/secret.png")),
  steal("app-scheme-port", loads("img", "src", "chrysalis-app://victim:80/secret.png")),
  steal("app-scheme-user", loads("img", "src", "chrysalis-app://hostile@victim/secret.png")),
  steal("app-scheme-climb", loads("img", "src", "../victim/secret.png")),
  steal("app-scheme-climb-encoded", loads("img", "src", "/..%2fvictim%2fsecret.png")),
  steal("app-scheme-climb-backslash", loads("img", "src", "/..\\victim\\secret.png")),
  steal("app-scheme-climb-double", loads("img", "src", "/%252e%252e/victim/secret.png")),
  steal("app-file-hidden", async () => (await fetch("/.hidden.txt")).ok),
  steal("app-file-link", async () => (await fetch("/link.txt")).ok),
  steal("app-file-manifest-of-victim", async () => (await fetch("/../victim/manifest.json")).ok),
  goes("app-scheme-go", "chrysalis-app://victim/index.html"),
  goes("app-scheme-go-user", "chrysalis-app://hostile@victim/index.html"),
  one("app-scheme-open", () => open("chrysalis-app://victim/index.html"), ALONE),
  goes("app-scheme-lookalike-host", (x) => `http://chrysalis-app.${x.named()}:47011/`),
  goes("app-scheme-lookalike-prefix", (x) => `http://hostile.${x.named()}:47011/`),

  // ---- the system's files and addresses of no server
  steal("file-image", loads("img", "src", "file:///usr/share/pixmaps/debian-logo.png")),
  steal("file-script", loads("script", "src", "file:///etc/hostname")),
  steal("file-child", framed("file:///etc/hostname")),
  got("file-fetch", "file:///etc/hostname"),
  steal("file-xhr", (x) => new Promise((done) => {
    const request = new (x.blank().XMLHttpRequest)();
    request.onload = () => done(request.responseText);
    request.onerror = () => done(false);
    request.open("GET", "file:///etc/hostname");
    request.send();
  })),
  goes("file-go", "file:///etc/hostname"),
  goes("data-go", "data:text/html,<title>out</title><script>document.title='out'</script>"),
  one("blob-go", () => {
    location.href = URL.createObjectURL(new Blob(["<title>out</title>"], { type: "text/html" }));
  }, ALONE),
  goes("about-go", "about:blank"),
  goes("webkit-go", "webkit://gpu"),
  goes("inspector-go", "inspector:///org/webkit/inspector/UserInterface/Main.html"),
  goes("resource-go", "resource:///org/gtk/libgtk/ui/gtkdialog.ui"),
  goes("view-source-go", "view-source:file:///etc/hostname"),
  one("blank-open", () => {
    const popup = open("about:blank");
    if (popup) globalThis.__won.push("blank-open: a window");
  }, ALONE),
  steal("full-screen", async () => {
    await document.documentElement.requestFullscreen();
    return "full screen";
  }),
  steal("pointer-lock", async (x) => {
    await x.add("div").requestPointerLock();
    return document.pointerLockElement && "locked";
  }),

  // ---- what a webview keeps by itself
  steal("own-local-storage", (x) => {
    const storage = x.blank().localStorage;
    storage.setItem("kept", "1");
    return storage.getItem("kept");
  }),
  steal("own-session-storage", (x) => {
    const storage = x.blank().sessionStorage;
    storage.setItem("kept", "1");
    return storage.getItem("kept");
  }),
  steal("own-indexeddb", () => new Promise((done) => {
    const request = indexedDB.open("kept");
    request.onsuccess = () => done("opened");
    request.onerror = () => done(false);
  })),
  steal("own-cache", async () => (await caches.open("kept")) && "opened"),
  steal("own-cookie", (x) => {
    document.cookie = "kept=1";
    return document.cookie || x.blank().document.cookie;
  }),
  steal("own-cookie-store", async () => {
    await cookieStore.set("kept", "1");
    return (await cookieStore.get("kept"))?.value;
  }),
  steal("own-files", async () => (await navigator.storage.getDirectory()) && "opened"),
  steal("own-service-worker", async () => (await navigator.serviceWorker.register("worker.js")) && "registered"),
  steal("own-shared-worker", () => new Promise((done) => {
    const worker = new SharedWorker("worker.js?to=x");
    worker.onerror = () => done(false);
    setTimeout(() => done("started"), 2000);
  })),
  steal("own-locks", (x) => x.blank().navigator.locks.request("kept", () => "held")),
  steal("own-database", () => globalThis.openDatabase?.("kept", "1", "kept", 1000) && "opened"),

  // ---- what the person would have to be asked for
  steal("credentials", async () => (await navigator.credentials.get({ password: true })) && "got"),
  steal("screen", async () => (await navigator.mediaDevices.getDisplayMedia()) && "seen"),
  steal("devices", async () => (await navigator.mediaDevices.enumerateDevices()).length),
  steal("payment", async () => new PaymentRequest([{ supportedMethods: "https://x" }], {}) && "asked"),
  steal("share", async () => (await navigator.share({ text: "secret" })) ?? "shared"),
  steal("clipboard", async () => (await navigator.clipboard.readText()) || "read"),
  one("save-by-script", (x) => {
    const url = URL.createObjectURL(new Blob(["secret"]));
    x.add("a", { href: url, download: "unasked.txt" }, "save").click();
  }),
  one("save-by-address", (x) => x.add("a", { href: "run.js", download: "unasked.js" }, "save").click()),
  one("open-a-link-by-script", (x) => x.add("a", { href: `https://${x.named()}:47011/` }, "out").click()),

  // ---- messages to the host that the page may not send; each would store a value
  one("forged-no-secret", () => tell({ ...store("", "forged-no-secret"), s: undefined })),
  one("forged-empty-secret", () => tell(store("", "forged-empty-secret"))),
  one("forged-wrong-secret", () => tell(store("0".repeat(32), "forged-wrong-secret"))),
  one("forged-secret-of-another-kind", () => tell({ ...store(null, "forged-secret-of-another-kind"), s: [""] })),
  one("forged-old-secret", async () => {
    const old = await secret();
    // From here on only the next copy's secret counts.
    if (old === (await secret())) globalThis.__won.push("forged-old-secret: two loads have one secret");
    tell(store(old, "forged-old-secret"));
  }, ALONE),
  one("forged-for-another-app", async () => {
    tell({ ...store(await secret(), "for-another-app"), app: "victim" });
  }, ALONE),
  one("forged-oversize", async () => {
    tell(store(await secret(), "forged-oversize", { value: "x".repeat(300_000) }));
  }, ALONE),
  one("forged-garbage", async () => {
    const s = await secret();
    for (const text of ["", "{", "[]", "null", "\0", "\u{10ffff}", '{"t":"storage"}', `{"t":"storage","s":"${s}"}`]) tell(text);
    tell(`${JSON.stringify(store(s, "forged-garbage"))}}`);
    tell(store(s, "forged-garbage", { which: "global" }));
    tell(store(s, "forged-garbage", { op: "replace" }));
    tell(store(s, "forged-garbage", { value: 1 }));
  }, ALONE),
  one("forged-not-a-string", async () => {
    const message = JSON.stringify(store(await secret(), "forged-not-a-string"));
    for (const odd of [{ toString: () => { throw new Error("odd"); } }, Symbol("odd"), 1, null]) {
      try {
        tell(odd);
        window.ipc.postMessage(odd);
      } catch {}
    }
    document.dispatchEvent(new CustomEvent("chrysalis-ipc", { detail: { message } }));
  }, ALONE),
  // The proof that these would be seen: the same message with the page's own secret is taken.
  one("control", async () => tell(store(await secret(), "control")), ALONE),
];
