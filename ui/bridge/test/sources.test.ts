import { describe, expect, test } from "vitest";
import { eventParser, makeEventSource, makeWebSocket, type ParsedEvent } from "../src/sources";
import { appPage } from "./fake";

const BASE = "chrysalis-app://demo/index.html";
const stream = { status: 200, statusText: "", headers: [["content-type", "text/event-stream"]] };
const once = (target: EventTarget, type: string) =>
  new Promise<MessageEvent>((done) => target.addEventListener(type, done as never, { once: true }));

function parse(...pieces: string[]): ParsedEvent[] {
  const events: ParsedEvent[] = [];
  const feed = eventParser((event) => events.push(event));
  for (const piece of pieces) feed(piece);
  return events;
}

// praxis-proxy/praxis#739, katanemo/plano#980, spiceai#12597, zeroclaw#3723
test("the same events for every split", () => {
  const raw =
    '\uFEFFdata:{"x":"日本🦋"}\r\n\r\n: ping\r\rid: 7\revent: e\rdata: a\rdata:  b\r\rdata\n\ndata: c\n\nretry: 5\n\n';
  const want = parse(raw);
  expect(want.map(({ type, data }) => [type, data])).toEqual([
    ["message", '{"x":"日本🦋"}'],
    ["e", "a\n b"],
    ["message", ""],
    ["message", "c"],
  ]);
  for (let i = 0; i <= raw.length; i++) {
    for (let j = i; j <= raw.length; j++) {
      expect(parse(raw.slice(0, i), raw.slice(i, j), raw.slice(j))).toEqual(want);
    }
  }
});

describe("EventSource", () => {
  test("opens, delivers, and connects again after the stream ends", async () => {
    const page = appPage();
    const Source = makeEventSource(page.fetch, () => BASE);
    const source = new Source("/v1/apps/demo/__streams/a:1");
    expect(page.of("fetch")[0]).toMatchObject({ url: "/v1/apps/demo/__streams/a:1" });
    const opened = once(source, "open");
    page.deliver({ t: "head", id: 1, ...stream });
    await opened;
    expect(source.readyState).toBe(1);
    const message = once(source, "message");
    page.deliver({ t: "chunk", id: 1, text: "retry: 1\n\nid: 9\ndata: one\n\n" });
    expect(await message).toMatchObject({ data: "one", lastEventId: "9" });
    const broken = once(source, "error");
    page.deliver({ t: "end", id: 1 });
    await broken;
    expect(source.readyState).toBe(0);
    await page.sentMessage("fetch", 1);
    source.close();
    expect(page.of("abort")).toMatchObject([{ id: 2 }]);
  });

  test.each([
    [404, "application/json"],
    [200, "text/html"],
    [204, "text/event-stream"],
  ])("a %i with %s ends it for good", async (status, type) => {
    const page = appPage();
    const Source = makeEventSource(page.fetch, () => BASE);
    const source = new Source("/v1/x");
    let fired = 0;
    source.addEventListener("error", () => fired++);
    const failed = once(source, "error");
    page.deliver({ t: "head", id: 1, status, statusText: "", headers: [["content-type", type]] }, { t: "end", id: 1 });
    await failed;
    expect(source.readyState).toBe(2);
    expect(fired).toBe(1);
    expect(page.of("fetch")).toHaveLength(1);
  });

  test("an address outside is refused once, not again and again", async () => {
    const page = appPage();
    const Source = makeEventSource(page.fetch, () => BASE);
    const source = new Source("https://example.com/events");
    await once(source, "error");
    expect(source.readyState).toBe(2);
    expect(page.of("fetch")).toEqual([]);
  });
});

describe("WebSocket", () => {
  const socket = (address: string) => {
    const page = appPage();
    const Socket = makeWebSocket(page.exchange, page.place);
    return { page, open: () => new Socket(address) };
  };

  test("listens to /v1/ws through the engine's events", async () => {
    const { page, open } = socket("ws://demo/v1/ws");
    const ws = open();
    const got: unknown[] = [];
    (ws as unknown as WebSocket).onmessage = (event) => got.push(event.data);
    expect(() => ws.send("early")).toThrow(/connecting/);
    expect(page.of("ws")).toMatchObject([{ id: 1, url: "/v1/ws" }]);
    page.deliver({ t: "ws", id: 1, event: "open" }, { t: "ws", id: 1, event: "message", data: '{"type":"hello"}' });
    expect(ws.readyState).toBe(1);
    expect(got).toEqual(['{"type":"hello"}']);
    const closed = once(ws, "close");
    ws.close();
    page.deliver({ t: "ws", id: 1, event: "message", data: "late" });
    expect(await closed).toMatchObject({ code: 1000, wasClean: true });
    expect(got).toHaveLength(1);
    expect(page.of("ws-close")).toMatchObject([{ id: 1 }]);
  });

  test.each(["wss://example.com/v1/ws", "ws://demo/v1/other", "/v1/ws/../events", "ws://demo.example.com/v1/ws"])(
    "refuses %s",
    (address) => {
      const { page, open } = socket(address);
      expect(open).toThrow(/only the WebSocket \/v1\/ws/);
      expect(page.of("ws")).toEqual([]);
    },
  );
});
