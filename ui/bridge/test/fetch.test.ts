import { describe, expect, test } from "vitest";
import { targetOf } from "../src/address";
import { appPage } from "./fake";

const ok = { status: 200, statusText: "OK", headers: [["content-type", "text/plain"]] };
const text = (bytes: string) => Buffer.from(bytes, "base64").toString();

describe("where a page may go", () => {
  const frame = { href: "http://127.0.0.1:7777/frame/t0/index.html", base: "/frame/t0" };
  const own = { href: "chrysalis-app://demo/sub/index.html", base: "" };
  test.each([
    ["/v1/models?x=1#y", own, "/v1/models?x=1"],
    ["data.json", own, "sub/data.json"],
    ["/data.json?v=1", own, "data.json?v=1"],
    ["../../../v1/models", own, "/v1/models"],
    ["chrysalis-app://demo/a", own, "a"],
    ["/v1/models", frame, "/v1/models"],
    ["/frame/t0/v1/assets/1", frame, "/v1/assets/1"],
    ["data.json", frame, "data.json"],
    ["/frame/t0/data.json", frame, "data.json"],
    ["/frame/other/data.json", frame, "frame/other/data.json"],
  ])("%s from %o", (input, place, path) => {
    expect(targetOf(input, place)).toMatchObject({ path });
  });

  test.each([
    ["https://example.com/", own],
    ["//example.com/v1/models", own],
    ["chrysalis-app://other/a", own],
    ["chrysalis-app://demo.evil.com/a", own],
    ["tauri://localhost/", own],
    ["http://127.0.0.1:7778/v1/models", frame],
    ["https://127.0.0.1:7777/v1/models", frame],
    ["http://user@127.0.0.1:7777/v1/models", frame],
    ["file:///etc/passwd", frame],
    ["javascript:alert(1)", frame],
  ])("refuses %s", (input, place) => {
    expect(() => targetOf(input, place)).toThrow(/may fetch only/);
  });

  test("a refused address sends nothing and rejects with the rule", async () => {
    const page = appPage();
    await expect(page.fetch("https://example.com/x")).rejects.toThrow(/own files and Chrysalis addresses under \/v1\//);
    await expect(page.fetch("words.txt", { method: "POST", body: "x" })).rejects.toThrow(/POST is not possible/);
    expect(page.sent.map((m) => m.t)).toEqual(["hello"]);
  });
});

describe("requests", () => {
  test("only the listed headers travel", async () => {
    const page = appPage();
    void page.fetch("/v1/models", {
      headers: { accept: "a/b", authorization: "x", "x-chrysalis-frame": "y", cookie: "z" },
    });
    expect((await page.sentMessage("fetch")).headers).toEqual([["accept", "a/b"]]);
  });

  test("bodies of every kind", async () => {
    const form = new FormData();
    form.append("a", "1");
    form.append('n"\r\n', "two\nlines");
    form.append("file", new File(["日本"], 'x".txt', { type: "text/x" }));
    const cases: [BodyInit, RegExp | string, RegExp | null][] = [
      ["plain\ud800", "plain\ufffd", /^text\/plain/],
      [new URLSearchParams({ a: "b c" }), "a=b+c", /^application\/x-www-form-urlencoded/],
      [new Blob(["blob"], { type: "x/y" }), "blob", /^x\/y$/],
      [new TextEncoder().encode("bytes").buffer, "bytes", null],
      [
        form,
        /^--(\S+)\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--\1\r\nContent-Disposition: form-data; name="n%22%0D%0A"\r\n\r\ntwo\r\nlines\r\n--\1\r\nContent-Disposition: form-data; name="file"; filename="x%22.txt"\r\nContent-Type: text\/x\r\n\r\n日本\r\n--\1--\r\n$/,
        /^multipart\/form-data; boundary=----ChrysalisForm/,
      ],
    ];
    for (const [body, want, type] of cases) {
      const page = appPage();
      void page.fetch("/v1/apps/demo/x", { method: "POST", body });
      const sent = await page.sentMessage("fetch");
      const got = sent.b64 ? text(sent.body as string) : (sent.body as string);
      if (typeof want === "string") expect(got).toBe(want);
      else expect(got).toMatch(want);
      const header = (sent.headers as string[][]).find(([name]) => name === "content-type")?.[1];
      if (type) expect(header).toMatch(type);
      else expect(header).toBeUndefined();
    }
  });

  test("a Request object, and init over it", async () => {
    const page = appPage();
    const request = new Request("chrysalis-app://demo/v1/apps/demo/x", { method: "PUT", body: "hello" });
    void page.fetch(request, { headers: { "content-type": "a/b" } });
    const sent = await page.sentMessage("fetch");
    expect(sent).toMatchObject({ method: "PUT", url: "/v1/apps/demo/x", headers: [["content-type", "a/b"]] });
    expect(text(sent.body as string)).toBe("hello");
    expect(request.bodyUsed).toBe(true);
  });

  test("a large body goes in pieces, each small enough for one message, in order", async () => {
    const page = appPage();
    const body = new Uint8Array(1_000_000).map((_, i) => i % 251);
    void page.fetch("/v1/assets", { method: "PUT", body });
    expect(await page.sentMessage("fetch")).toMatchObject({ more: true });
    const pieces = Math.ceil(body.length / (144 * 1024));
    await page.sentMessage("body", pieces - 1);
    const sent = page.of("body");
    expect(sent.map((m) => m.last)).toEqual([...Array(pieces - 1).fill(false), true]);
    for (const piece of sent) expect((piece.data as string).length).toBeLessThanOrEqual(192 * 1024);
    expect(
      Buffer.compare(Buffer.concat(sent.map((m) => Buffer.from(m.data as string, "base64"))), Buffer.from(body)),
    ).toBe(0);
  });

  test("a body over 32 MiB is refused with its size", async () => {
    const page = appPage();
    const sent = page.fetch("/v1/assets", { method: "PUT", body: new Uint8Array(32 * 1024 * 1024 + 1) });
    await expect(sent).rejects.toThrow(/33554433 bytes/);
    expect(page.of("fetch")).toEqual([]);
  });
});

describe("answers", () => {
  test("the first chunk is there while the second is withheld", async () => {
    const page = appPage();
    const answer = page.fetch("/v1/x");
    page.deliver({ t: "head", id: 1, ...ok });
    const response = await answer;
    expect(response.headers.get("content-type")).toBe("text/plain");
    expect(response.url).toBe("chrysalis-app://demo/v1/x");
    const reader = (response.body as ReadableStream<Uint8Array>)
      .pipeThrough(new TextDecoderStream() as never)
      .getReader() as ReadableStreamDefaultReader<string>;
    page.deliver({ t: "chunk", id: 1, text: "日本" });
    expect((await reader.read()).value).toBe("日本");
    page.deliver({ t: "chunk", id: 1, b64: Buffer.from("🦋").toString("base64") }, { t: "end", id: 1 });
    expect((await reader.read()).value).toBe("🦋");
    expect((await reader.read()).done).toBe(true);
  });

  test("credit is given back for what was read, not for what lies unread", async () => {
    const page = appPage();
    const answer = page.fetch("/v1/x");
    const piece = "x".repeat(64 * 1024);
    page.deliver(
      { t: "head", id: 1, ...ok },
      ...Array.from({ length: 16 }, () => ({ t: "chunk", id: 1, text: piece })),
    );
    const response = await answer;
    expect(page.of("ack")).toEqual([]);
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    const first = await reader.read();
    expect(first.value?.length).toBe(16 * piece.length);
    expect(page.of("ack")).toMatchObject([{ id: 1, n: 16 * piece.length }]);
    for (let i = 0; i < 4; i++) {
      const read = reader.read();
      page.deliver({ t: "chunk", id: 1, bytes: undefined, text: piece });
      await read;
    }
    expect(page.of("ack").map((m) => m.n)).toEqual([16 * piece.length, 2 * piece.length, 2 * piece.length]);
  });

  test("an error after the start comes after everything that had arrived", async () => {
    const page = appPage();
    const answer = page.fetch("/v1/x");
    page.deliver(
      { t: "head", id: 1, ...ok },
      { t: "chunk", id: 1, text: "kept" },
      { t: "error", id: 1, message: "gone" },
    );
    const reader = ((await answer).body as ReadableStream<Uint8Array>).getReader();
    expect(new TextDecoder().decode((await reader.read()).value)).toBe("kept");
    await expect(reader.read()).rejects.toThrow("gone");
  });

  test("an error before the start rejects; so does an end without a head", async () => {
    const page = appPage();
    const [a, b] = [page.fetch("/v1/a"), page.fetch("/v1/b")];
    page.deliver({ t: "error", id: 1, message: "engine stopped" }, { t: "end", id: 2 });
    await expect(a).rejects.toThrow("engine stopped");
    await expect(b).rejects.toThrow(/before the answer began/);
  });

  test("statuses without a body, and redirects", async () => {
    const page = appPage();
    const empty = page.fetch("/v1/a", { method: "DELETE" });
    page.deliver({ t: "head", id: 1, status: 204, statusText: "", headers: [] }, { t: "end", id: 1 });
    expect((await empty).body).toBeNull();
    const head = page.fetch("words.txt", { method: "HEAD" });
    expect(page.of("fetch")[1]).toMatchObject({ method: "GET", url: "words.txt" });
    page.deliver({ t: "head", id: 2, ...ok });
    expect(await (await head).text()).toBe("");
    expect(page.of("abort")).toMatchObject([{ id: 2 }]);
    const moved = page.fetch("/v1/b");
    page.deliver({ t: "head", id: 3, status: 302, statusText: "", headers: [["location", "https://example.com/"]] });
    await expect(moved).rejects.toThrow(/redirect/);
  });

  test("nonsense from below rejects instead of throwing elsewhere", async () => {
    const page = appPage();
    const a = page.fetch("/v1/a");
    page.deliver({ t: "head", id: 1, status: 7, headers: [] });
    await expect(a).rejects.toThrow(RangeError);
    const b = page.fetch("/v1/b");
    page.deliver({ t: "head", id: 2, ...ok }, { t: "chunk", id: 2, b64: "***" }, { t: "chunk", id: 99, text: "x" });
    await expect((await b).text()).rejects.toThrow(/damaged/);
  });

  test("blob: and data: addresses are answered in the page", async () => {
    const page = appPage(new Map([["blob:null/1", new Blob(["inside"], { type: "a/b" })]]));
    const blob = await page.fetch("blob:null/1");
    expect(blob.headers.get("content-type")).toBe("a/b");
    expect(await blob.text()).toBe("inside");
    expect(await (await page.fetch("data:text/plain;base64,aGk=")).text()).toBe("hi");
    expect(await (await page.fetch("data:,a%20%F0%9F%A6%8B%zz")).text()).toBe("a 🦋%zz");
    await expect(page.fetch("blob:null/2")).rejects.toThrow(TypeError);
    expect(page.of("fetch")).toEqual([]);
  });
});

describe("abort", () => {
  test("before, while waiting and while reading", async () => {
    const page = appPage();
    await expect(page.fetch("/v1/a", { signal: AbortSignal.abort("never") })).rejects.toBe("never");
    expect(page.of("fetch")).toEqual([]);

    const control = new AbortController();
    const waiting = page.fetch("/v1/b", { signal: control.signal });
    control.abort();
    await expect(waiting).rejects.toMatchObject({ name: "AbortError" });
    expect(page.of("abort")).toMatchObject([{ id: 1 }]);

    const second = new AbortController();
    const answer = page.fetch("/v1/c", { signal: second.signal });
    page.deliver({ t: "head", id: 2, ...ok }, { t: "chunk", id: 2, text: "unread" });
    const reader = ((await answer).body as ReadableStream).getReader();
    second.abort();
    await expect(reader.read()).rejects.toMatchObject({ name: "AbortError" });
    expect(page.of("abort").map((m) => m.id)).toEqual([1, 2]);
  });

  test("cancelling the body stops delivery, once", async () => {
    const page = appPage();
    const answer = page.fetch("/v1/a");
    page.deliver({ t: "head", id: 1, ...ok });
    await ((await answer).body as ReadableStream).cancel();
    page.deliver({ t: "chunk", id: 1, text: "late" }, { t: "end", id: 1 });
    expect(page.of("abort")).toMatchObject([{ id: 1 }]);
  });
});

test("50,000 small chunks arrive complete and in order, well over 10,000 a second", async () => {
  const page = appPage();
  const answer = page.fetch("/v1/x");
  page.deliver({ t: "head", id: 1, ...ok });
  const response = await answer;
  const began = performance.now();
  const reading = response.text();
  let want = "";
  for (let i = 0; i < 50_000; i += 10) {
    const messages = Array.from({ length: 10 }, (_, k) => ({
      t: "chunk",
      id: 1,
      text: `data: {"delta":"${i + k} "}\n\n`,
    }));
    want += messages.map((m) => m.text).join("");
    page.deliver(...messages);
    if (i % 1000 === 0) await new Promise((done) => setImmediate(done));
  }
  page.deliver({ t: "end", id: 1 });
  expect(await reading).toBe(want);
  expect(50_000 / ((performance.now() - began) / 1000)).toBeGreaterThan(10_000);
});
