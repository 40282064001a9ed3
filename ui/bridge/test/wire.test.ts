import { describe, expect, test } from "vitest";
import { Exchange, type In, openWire, type PageWindow } from "../src/wire";
import { appWindow, SECRET } from "./fake";

describe("app window", () => {
  test("says hello, with the secret on every message and in no object that JSON.stringify sees", () => {
    const seen: unknown[] = [];
    // biome-ignore lint/suspicious/noExplicitAny: this is what a nosy page does
    (Object.prototype as any).toJSON = function () {
      seen.push({ ...this });
      return this;
    };
    const page = appWindow();
    page.exchange.send({ t: "link", url: "https://example.com/" });
    // biome-ignore lint/suspicious/noExplicitAny: as above
    delete (Object.prototype as any).toJSON;
    expect(page.sent).toEqual([
      { s: SECRET, t: "hello" },
      { s: SECRET, t: "link", url: "https://example.com/" },
    ]);
    expect(seen.length).toBeGreaterThan(0);
    expect(JSON.stringify(seen)).not.toContain(SECRET);
  });

  test("the way in cannot be replaced, and a wrong secret is not heard", () => {
    const page = appWindow();
    const heard: In[] = [];
    const id = page.exchange.open((message) => heard.push(message));
    expect(() => {
      page.win.__chrysalisIn = () => {};
    }).toThrow(TypeError);
    for (const bad of [["wrong", 1, [{ t: "end", id }]], [{ t: "end", id }], null, "x", [SECRET, 1, "no"]]) {
      page.win.__chrysalisIn?.(bad);
    }
    expect(heard).toEqual([]);
    expect(page.of("seen")).toEqual([]);
    page.deliver({ t: "end", id });
    expect(heard).toHaveLength(1);
  });

  test("each batch is acknowledged by its number, once", () => {
    const page = appWindow();
    page.deliver({ t: "x" });
    page.deliver({ t: "x" }, { t: "y" });
    expect(page.of("seen").map((m) => m.n)).toEqual([1, 2]);
  });
});

/** A shell page and the frame in it, each with its own idea of `source`. */
function frames() {
  const shell = {};
  const listeners = new Set<(event: MessageEvent) => void>();
  const hellos: { doc: string }[] = [];
  let onHello = () => {};
  const parent = Object.assign(shell, {
    postMessage(message: { doc: string }) {
      hellos.push(message);
      onHello();
    },
  });
  const win: PageWindow = {
    parent,
    addEventListener: (_type, listener) => listeners.add(listener),
    removeEventListener: (_type, listener) => listeners.delete(listener),
  };
  const boot = { transport: "frame", app: "demo", secret: SECRET, base: "/frame/t", storage: {}, quota: 200 };
  const exchange = new Exchange(openWire(win, boot as never));
  let stopped = 0;
  const post = (source: unknown, data: unknown, ports: MessagePort[] = []) => {
    for (const listener of [...listeners]) {
      listener({ source, data, ports, stopImmediatePropagation: () => stopped++ } as unknown as MessageEvent);
    }
  };
  const moreHellos = (n: number) =>
    new Promise<void>((done) => {
      onHello = () => hellos.length >= n && done();
      onHello();
    });
  return { parent, hellos, exchange, post, listeners, moreHellos, stopped: () => stopped };
}

// gptme#3861, ampproject/amphtml#20634, gamedev.pl#237, kdr/overcast#120: every sandboxed frame has the origin "null".
describe("frame in a browser: only the parent's own answer counts, once", () => {
  test("asks until answered, ignores strangers, wrong documents and second answers", async () => {
    const f = frames();
    await f.moreHellos(2);
    const doc = f.hellos[0]?.doc;
    expect(f.hellos[1]?.doc).toBe(doc);
    const stranger = new MessageChannel();
    f.post({}, { chrysalis: 1, t: "init", doc }, [stranger.port2]);
    f.post(f.parent, { chrysalis: 1, t: "init", doc: "other" }, [stranger.port2]);
    f.post(f.parent, { chrysalis: 1, t: "init", doc }, []);
    f.post(f.parent, null);
    expect(f.listeners.size).toBe(1);

    const real = new MessageChannel();
    const got: unknown[] = [];
    const first = new Promise<void>((done) => {
      real.port1.onmessage = (e) => {
        got.push(e.data);
        if (got.length === 2) done();
      };
    });
    f.exchange.send({ t: "link", url: "https://example.com/" });
    f.post(f.parent, { chrysalis: 1, t: "init", doc }, [real.port2]);
    await first;
    expect(got).toEqual([
      { t: "hello", s: SECRET },
      { t: "link", url: "https://example.com/", s: SECRET },
    ]);
    // The page's own listeners never see the port, and a second answer finds nobody.
    expect(f.stopped()).toBe(1);
    expect(f.listeners.size).toBe(0);

    const heard = new Promise<In>((done) => f.exchange.open(done));
    real.port1.postMessage({ t: "head", id: 1, status: 200 });
    expect((await heard).status).toBe(200);
    real.port1.close();
    stranger.port1.close();
  });

  test("two documents never use the same number", () => {
    const [a, b] = [frames(), frames()];
    expect(a.hellos[0]?.doc).not.toBe(b.hellos[0]?.doc);
    for (const f of [a, b]) {
      const channel = new MessageChannel();
      f.post(f.parent, { chrysalis: 1, t: "init", doc: f.hellos[0]?.doc }, [channel.port2]);
      channel.port1.close();
    }
  });
});
