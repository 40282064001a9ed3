import { afterEach, describe, expect, it } from "vitest";
import { type DownloadAsk, type HostOptions, type LinkAsk, PageHost } from "./host";
import { bytesOfBase64, readLink, readMessage, safeFileName } from "./messages";
import type { PaceLimits } from "./pace";
import { StorageWriter } from "./storage";

const ORIGIN = "http://127.0.0.1:4321";
const TOKEN = "0123456789abcdef0123456789abcdef";

interface Sent {
  path: string;
  init: RequestInit;
}
interface Heard {
  t: string;
  id?: number;
  event?: string;
  data?: string;
  message?: string;
  status?: number;
  bytes?: Uint8Array;
}

const open: { close(): void }[] = [];
afterEach(() => {
  for (const thing of open.splice(0)) thing.close();
});

/** A page and its host, joined by a real channel; the engine is `answer`. */
function page(answer: (sent: Sent) => Response | Promise<Response>, more: Partial<HostOptions> = {}) {
  const channel = new MessageChannel();
  const sent: Sent[] = [];
  const heard: Heard[] = [];
  const downloads: DownloadAsk[] = [];
  const links: LinkAsk[] = [];
  const stops: string[] = [];
  const send = async (input: RequestInfo | URL, init: RequestInit = {}) => {
    const one = { path: String(input), init };
    sent.push(one);
    return answer(one);
  };
  const storage = new StorageWriter(
    async (write) => {
      const saved = await send(`storage:${write.which}:${write.op}:${write.key}=${write.value}`);
      if (!saved.ok) throw new Error("over the quota");
    },
    (write, message) => host.storageError(write.which, write.op, write.key, message),
  );
  const host: PageHost = new PageHost({
    app: "chat",
    token: TOKEN,
    origin: ORIGIN,
    port: channel.port1,
    send,
    storage,
    onDownload: (ask) => downloads.push(ask),
    onLink: (ask) => links.push(ask),
    onStop: (reason) => stops.push(reason),
    ...more,
  });
  channel.port2.onmessage = (event) => heard.push(event.data as Heard);
  open.push({
    close: () => {
      host.close();
      channel.port2.close();
    },
  });
  const say = (message: unknown) => channel.port2.postMessage(message);
  const received = (id: number) =>
    heard.filter((m) => m.t === "chunk" && m.id === id).reduce((sum, m) => sum + (m.bytes?.length ?? 0), 0);
  const done = (id: number) => heard.some((m) => m.id === id && (m.t === "end" || m.t === "error"));
  return { host, sent, heard, downloads, links, stops, say, received, done };
}

const get = (id: number, url: string, more: object = {}) => ({
  t: "fetch",
  id,
  method: "GET",
  url,
  headers: [],
  ...more,
});
const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64");
/** Waits until the port has delivered everything that was posted before. */
const settled = () => new Promise((done) => setTimeout(done, 30));

describe("a page's requests", () => {
  it("carry the frame's token, never the session, and only headers that travel", async () => {
    const { say, sent, done } = page(() => new Response("ok"));
    say(
      get(1, "/v1/models?x=1", {
        headers: [
          ["Accept", "text/plain"],
          ["X-Chrysalis-Frame", "someone-else"],
          ["Cookie", "a=b"],
          ["Range", "bytes=0-1"],
        ],
      }),
    );
    await expect.poll(() => done(1)).toBe(true);
    const { path, init } = sent[0] as Sent;
    expect(path).toBe("/v1/models?x=1");
    expect(init.credentials).toBe("omit");
    expect(init.redirect).toBe("error");
    expect(init.headers).toEqual([
      ["accept", "text/plain"],
      ["range", "bytes=0-1"],
      ["X-Chrysalis-Frame", TOKEN],
      ["X-Chrysalis-Request", "1"],
    ]);
  });

  it("reach /v1/ and the page's own files, and nothing else by any spelling", async () => {
    const own = `/frame/${TOKEN}/`;
    const cases: [string, string | null, string?][] = [
      ["/v1/apps/chat/hello", "/v1/apps/chat/hello"],
      ["data/a.json?b=c", `${own}data/a.json?b=c`],
      ["/data/a.json", `${own}data/a.json`],
      [`${own}x.js`, `${own}x.js`],
      ["../../v1/me", "/v1/apps/chat/__refused"],
      ["../../assets/index.js", null],
      ["../ffffffffffffffffffffffffffffffff/index.html", null],
      ["..%2f..%2findex.html", `${own}..%2f..%2findex.html`],
      ["%2e%2e/%2e%2e/index.html", null],
      ["..\\..\\index.html", null],
      ["//evil.example/", `${own}evil.example/`],
      ["https://evil.example/", `${own}https://evil.example/`],
      ["/v1/../assets/index.js", null],
      ["/v1/../../", null],
      ["x.json", null, "POST"],
    ];
    const { say, sent, heard, done } = page(() => new Response("ok"));
    for (const [at, [url, wanted, method]] of cases.entries()) {
      const before = sent.length;
      say(get(at, url, { method: method ?? "GET" }));
      await expect.poll(() => done(at), { message: url }).toBe(true);
      expect(
        sent.slice(before).map((one) => one.path),
        url,
      ).toEqual(wanted === null ? [] : [wanted]);
      if (wanted === null) expect(heard.find((m) => m.id === at)?.t, url).toBe("error");
    }
  });

  it("get no more of an answer than they have room for, and all of it in order", async () => {
    const total = 3 * 1024 * 1024 + 17;
    const whole = Uint8Array.from({ length: total }, (_, i) => (i * 7 + (i >> 8)) % 256);
    const { say, heard, received, done } = page(() => new Response(whole));
    say(get(1, "/v1/assets/big"));
    await expect.poll(() => received(1)).toBe(1024 * 1024);
    await settled();
    expect(received(1)).toBe(1024 * 1024);
    // More than was sent is not believed.
    say({ t: "ack", id: 1, n: 50 * 1024 * 1024 });
    await expect.poll(() => received(1)).toBe(2 * 1024 * 1024);
    await settled();
    expect(received(1)).toBe(2 * 1024 * 1024);
    say({ t: "ack", id: 1, n: 1024 * 1024 });
    await expect.poll(() => received(1)).toBe(3 * 1024 * 1024);
    say({ t: "ack", id: 1, n: 1024 * 1024 });
    await expect.poll(() => done(1)).toBe(true);
    const got = Buffer.concat(heard.filter((m) => m.t === "chunk").map((m) => m.bytes as Uint8Array));
    expect(got.equals(Buffer.from(whole))).toBe(true);
  });

  it("see the first chunk while the engine still holds the second back", async () => {
    let second = (_: string) => {};
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        controller.enqueue(new TextEncoder().encode("first"));
        second = (text) => {
          controller.enqueue(new TextEncoder().encode(text));
          controller.close();
        };
      },
    });
    const { say, received, done } = page(() => new Response(body));
    say(get(1, "/v1/apps/chat/stream"));
    await expect.poll(() => received(1)).toBe(5);
    expect(done(1)).toBe(false);
    second("second");
    await expect.poll(() => done(1)).toBe(true);
    expect(received(1)).toBe(11);
  });

  it("stop being delivered on abort", async () => {
    let cancelled = false;
    const body = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(new Uint8Array(1024)),
      cancel: () => {
        cancelled = true;
      },
    });
    const { say, sent, heard, received } = page(() => new Response(body));
    say(get(1, "/v1/apps/chat/endless"));
    await expect.poll(() => received(1)).toBe(1024 * 1024);
    say({ t: "abort", id: 1 });
    await expect.poll(() => cancelled).toBe(true);
    expect(sent[0]?.init.signal?.aborted).toBe(true);
    expect(heard.some((m) => m.t === "end" || m.t === "error")).toBe(false);
  });

  it("carry bodies as text, as base64 and in pieces", async () => {
    const { say, sent, done } = page(() => new Response("ok"));
    const bytes = Uint8Array.from({ length: 300_000 }, (_, i) => i % 256);
    say(get(1, "/v1/apps/chat/a", { method: "POST", body: "hé" }));
    say(get(2, "/v1/apps/chat/b", { method: "PUT", body: base64(bytes.slice(0, 9)), b64: true }));
    say(get(3, "/v1/apps/chat/c", { method: "POST", more: true }));
    say({ t: "body", id: 3, data: base64(bytes.slice(0, 147_456)), last: false });
    say({ t: "body", id: 3, data: base64(bytes.slice(147_456, 294_912)), last: false });
    say({ t: "body", id: 3, data: base64(bytes.slice(294_912)), last: true });
    await expect.poll(() => done(1) && done(2) && done(3)).toBe(true);
    const bodies = new Map<string, Buffer>();
    for (const { path, init } of sent) bodies.set(path, Buffer.from(await (init.body as Blob).arrayBuffer()));
    expect(bodies.get("/v1/apps/chat/a")?.toString()).toBe("hé");
    expect(bodies.get("/v1/apps/chat/b")?.equals(Buffer.from(bytes.slice(0, 9)))).toBe(true);
    expect(bodies.get("/v1/apps/chat/c")?.equals(Buffer.from(bytes))).toBe(true);
  });

  it("may not send more than 32 MiB, nor be more than 64 at once", async () => {
    const { say, sent, heard, done } = page(() => new Promise<Response>(() => {}));
    const piece = base64(new Uint8Array(192 * 1024));
    say(get(1, "/v1/apps/chat/a", { method: "POST", more: true }));
    for (let i = 0; i < 171; i++) say({ t: "body", id: 1, data: piece, last: false });
    await expect.poll(() => done(1)).toBe(true);
    expect(heard[0]?.message).toContain("32 MiB");
    for (let id = 100; id < 165; id++) say(get(id, "/v1/apps/chat/wait"));
    await expect.poll(() => done(164)).toBe(true);
    expect(sent.length).toBe(64);
  });

  it("are all let go when the page goes, and nothing is said after that", async () => {
    const { host, say, sent, heard } = page(() => new Promise<Response>(() => {}));
    say(get(1, "/v1/apps/chat/wait"));
    say({ t: "ws", id: 2, url: "/v1/ws" });
    await expect.poll(() => sent.length).toBe(2);
    host.close();
    expect(sent.every((one) => one.init.signal?.aborted)).toBe(true);
    say(get(3, "/v1/apps/chat/late"));
    await settled();
    expect(sent.length).toBe(2);
    expect(heard).toEqual([]);
  });
});

describe("a page's event socket", () => {
  it("hears /v1/events with the frame's token", async () => {
    const { say, sent, heard } = page(() => new Response('data: {"type":"hello"}\n\ndata: {"type":"app_stream"}\n\n'));
    say({ t: "ws", id: 5, url: `ws://127.0.0.1:4321/v1/ws` });
    say({ t: "ws", id: 6, url: "/v1/ws/../apps" });
    await expect.poll(() => heard.filter((m) => m.event === "close").length).toBe(2);
    expect(heard.filter((m) => m.id === 5).map((m) => m.data ?? m.event)).toEqual([
      "open",
      '{"type":"hello"}',
      '{"type":"app_stream"}',
      "close",
    ]);
    expect(heard.filter((m) => m.id === 6).map((m) => m.event)).toEqual(["error", "close"]);
    expect(sent.map((one) => one.path)).toEqual(["/v1/events"]);
    expect(sent[0]?.init.credentials).toBe("omit");
  });
});

describe("a page's storage", () => {
  it("is written in order, bursts of one key as one, and tells what did not stick", async () => {
    const { say, sent, heard } = page((one) => new Response("", { status: one.path.includes("big") ? 413 : 200 }));
    say({ t: "storage", which: "local", op: "set", key: "a", value: "1" });
    say({ t: "storage", which: "local", op: "set", key: "big", value: "2" });
    say({ t: "storage", which: "local", op: "clear" });
    say({ t: "storage", which: "session", op: "remove", key: "a" });
    await expect.poll(() => sent.length).toBe(4);
    expect(sent.map((one) => one.path)).toEqual([
      "storage:local:set:a=1",
      "storage:local:set:big=2",
      "storage:local:clear:=",
      "storage:session:remove:a=",
    ]);
    await expect.poll(() => heard.length).toBe(1);
    expect(heard[0]).toEqual({ t: "storage-error", which: "local", op: "set", key: "big", message: "over the quota" });
  });

  it("lets a request that writes storage wait for the writes before it", async () => {
    const { say, sent } = page(() => new Response("{}"));
    for (let i = 0; i < 20; i++) say({ t: "storage", which: "local", op: "set", key: `k${i}`, value: "v" });
    say(get(1, "/v1/apps/chat/__storage", { method: "POST", body: "{}" }));
    await expect.poll(() => sent.length).toBe(21);
    expect(sent.at(-1)?.path).toBe("/v1/apps/chat/__storage");
  });

  it("replaces a write of the same key that still waits", async () => {
    const written: string[] = [];
    const writer = new StorageWriter(
      async (write) => {
        written.push(`${write.key}=${write.value}`);
      },
      () => {},
    );
    for (let i = 0; i < 1000; i++)
      writer.write({ t: "storage", which: "local", op: "set", key: "k", value: String(i) });
    await writer.flush();
    expect(written).toEqual(["k=999"]);
  });
});

describe("what a page proposes to the person", () => {
  const file = (id: number, name: string, size: number) => ({ t: "download", id, name, mime: "text/html", size });

  it("is one file at a time, as bytes under a safe name, decided outside", async () => {
    const { say, heard, downloads } = page(() => new Response());
    const bytes = new TextEncoder().encode("<script>alert(1)</script>");
    say(file(1, "../../.bashrc\u202e.html", bytes.length));
    say(file(2, "second", 1));
    say({ t: "data", id: 1, data: base64(bytes.slice(0, 9)), last: false });
    say({ t: "data", id: 1, data: base64(bytes.slice(9)), last: true });
    say(file(3, "third", 1));
    await expect.poll(() => downloads.length).toBe(1);
    await expect.poll(() => heard.length).toBe(2);
    expect(heard.map((m) => [m.t, m.id])).toEqual([
      ["download-refused", 2],
      ["download-refused", 3],
    ]);
    const ask = downloads[0] as DownloadAsk;
    expect(ask.name).toBe("_.._.bashrc.html");
    expect(ask.blob.type).toBe("application/octet-stream");
    expect(await ask.blob.text()).toBe("<script>alert(1)</script>");
    ask.accept();
    ask.refuse();
    await expect.poll(() => heard.length).toBe(3);
    expect(heard[2]).toEqual({ t: "download-done", id: 1 });
  });

  it("is no file over 64 MiB, none larger than it said, none that is not base64", async () => {
    const { say, heard, downloads } = page(() => new Response());
    say(file(1, "huge", 64 * 1024 * 1024 + 1));
    say(file(2, "liar", 3));
    say({ t: "data", id: 2, data: base64(new Uint8Array(4)), last: true });
    say(file(3, "odd", 3));
    say({ t: "data", id: 3, data: "%%%", last: true });
    await expect.poll(() => heard.filter((m) => m.t === "download-refused").length).toBe(3);
    expect(downloads).toEqual([]);
  });

  it("is one plain http(s) link at a time", async () => {
    const { say, links } = page(() => new Response());
    for (const url of ["javascript:alert(1)", "file:///etc/passwd", "https://bank.example@evil.example/", "x", ""]) {
      say({ t: "link", url });
    }
    say({ t: "link", url: "https://bücher.example:8443/a?b" });
    say({ t: "link", url: "https://second.example/" });
    await expect.poll(() => links.length).toBe(1);
    await settled();
    expect(links.map((ask) => ask.url.host)).toEqual(["xn--bcher-kva.example:8443"]);
    links[0]?.done();
    say({ t: "link", url: "https://second.example/" });
    await expect.poll(() => links.length).toBe(2);
  });
});

describe("a page that misbehaves", () => {
  it("is not listened to when it makes no sense", async () => {
    const { host, say, sent, heard, done } = page(() => new Response("ok"));
    const nonsense: unknown[] = [
      null,
      7,
      "fetch",
      [],
      {},
      { t: "fetch" },
      { t: "fetch", id: -1, method: "GET", url: "/v1/apps/chat/a", headers: [] },
      { t: "fetch", id: 1.5, method: "GET", url: "/v1/apps/chat/a", headers: [] },
      { t: "fetch", id: 1, method: "CONNECT", url: "/v1/apps/chat/a", headers: [] },
      { t: "fetch", id: 1, method: "GET", url: "/".repeat(20_000), headers: [] },
      { t: "fetch", id: 1, method: "GET", url: "/v1/apps/chat/a", headers: {} },
      { t: "fetch", id: 1, method: "GET", url: "/v1/apps/chat/a", headers: [["a"]] },
      { t: "fetch", id: 1, method: "POST", url: "/v1/apps/chat/a", headers: [], body: "x".repeat(400_000) },
      { t: "ack", id: 1, n: -5 },
      { t: "ack", id: 1, n: Number.NaN },
      { t: "storage", which: "cookies", op: "set", key: "a", value: "b" },
      { t: "storage", which: "local", op: "set", key: "a" },
      { t: "download", id: 1, name: "a", size: -1 },
      { t: "__proto__" },
      { t: "constructor" },
    ];
    for (const message of nonsense) say(message);
    say(get(9, "/v1/apps/chat/fine"));
    await expect.poll(() => done(9)).toBe(true);
    expect(host.malformed).toBe(nonsense.length);
    expect(sent.length).toBe(1);
    // Requests among them are answered, so that nothing waits for ever.
    expect(heard.filter((m) => m.id !== 9).map((m) => m.t)).toEqual(Array(6).fill("error"));
  });

  it("is stopped when it goes on making no sense", async () => {
    const { host, say, stops } = page(() => new Response("ok"));
    for (let i = 0; i < 500; i++) say({ t: "body", id: 1, data: "x".repeat(300_000) });
    await expect.poll(() => stops).toEqual(["flood"]);
    expect(host.malformed).toBeLessThan(100);
  });

  it("drops a header value that would break the request instead of failing on it", () => {
    const message = readMessage(
      get(1, "/v1/apps/chat/a", {
        headers: [
          ["accept", "a\r\nX-Evil: 1"],
          ["accept", "\u{1f98b}"],
        ],
      }),
    );
    expect(message).toMatchObject({ headers: [] });
  });

  const PACE: PaceLimits = {
    perSecond: 10,
    burst: 50,
    charactersPerSecond: 1e9,
    characterBurst: 1e9,
    backlog: 40,
    backlogCharacters: 1e6,
  };

  it("is paused when it is too fast, and loses nothing", async () => {
    const { say, sent, stops } = page(() => new Promise<Response>(() => {}), { pace: PACE });
    const begun = performance.now();
    for (let id = 0; id < 60; id++) say(get(id, "/v1/apps/chat/a"));
    await expect.poll(() => sent.length).toBe(60);
    // Ten over the fifty that may come at once, at ten a second.
    expect(performance.now() - begun).toBeGreaterThan(800);
    expect(stops).toEqual([]);
  });

  it("is stopped, once, when it floods", async () => {
    const { say, sent, stops } = page(() => new Promise<Response>(() => {}), { pace: PACE });
    for (let id = 0; id < 5000; id++) say({ t: "ack", id, n: 1 });
    say(get(1, "/v1/apps/chat/late"));
    await expect.poll(() => stops).toEqual(["flood"]);
    await settled();
    expect(stops).toEqual(["flood"]);
    expect(sent).toEqual([]);
  });
});

describe("names and addresses from pages", () => {
  it.each([
    ["notes.md", "notes.md"],
    ["../../etc/passwd", "_.._etc_passwd"],
    ["..foo.txt", "foo.txt"],
    ["C:\\x\\y.txt", "C__x_y.txt"],
    ["CON", "_CON"],
    ["nul.txt", "_nul.txt"],
    ["COM¹.log", "_COM¹.log"],
    ["x. ", "x"],
    ["a\u0000b\nc", "abc"],
    ["exe.\u202egnp.scr", "exe.gnp.scr"],
    ["日本🦋.png", "日本🦋.png"],
    ["", "download"],
    ["...", "download"],
    [`${"a".repeat(300)}.tar.gz`, `${"a".repeat(117)}.gz`],
  ])("saves %j as %j", (name, safe) => expect(safeFileName(name)).toBe(safe));

  it("reads base64 strictly", () => {
    expect(bytesOfBase64("aGk=")).toEqual(new Uint8Array([104, 105]));
    expect(bytesOfBase64("a?")).toBeNull();
  });

  it("shows a link's host as it will be asked for", () => {
    expect(readLink("https://EXAMPLE.com/x")?.host).toBe("example.com");
    expect(readLink("https://a:b@example.com/")).toBeNull();
    expect(readLink(`https://example.com/${"x".repeat(3000)}`)).toBeNull();
  });
});

describe("a page that asks for what it may not use", () => {
  it("is answered 403 by the shell alone, which has it written down", async () => {
    const { say, sent, heard, done } = page(() => new Response("everything"));
    say(get(1, "/v1/settings"));
    await expect.poll(() => done(1)).toBe(true);
    expect(heard.find((m) => m.t === "head" && m.id === 1)?.status).toBe(403);
    await expect.poll(() => sent.map((one) => one.path)).toEqual(["/v1/apps/chat/__refused"]);
    expect(JSON.parse(String(sent[0]?.init.body))).toEqual({ method: "GET", path: "/v1/settings" });
  });
});
