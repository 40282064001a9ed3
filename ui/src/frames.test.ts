// @vitest-environment happy-dom
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { FRAME_SANDBOX, FrameError, leavesPreconnectsOpen, type OpenFrame, openFrame, readHello } from "./frames";

const TOKEN = "0123456789abcdef0123456789abcdef";

interface Given {
  doc: string;
  port: MessagePort;
}

/** The frame's window, as far as the handshake uses it. */
let given: Given[];
let pageWindow: { postMessage(message: { doc: string }, origin: string, ports: MessagePort[]): void };
let calls: string[];
let stops: string[];
let frames: OpenFrame[];
/** Not in the document, so that nothing tries to load the frame. */
let mount: HTMLElement;

beforeEach(() => {
  given = [];
  calls = [];
  stops = [];
  frames = [];
  mount = document.createElement("div");
  pageWindow = {
    postMessage: (message, origin, ports) => {
      expect(origin).toBe("*");
      given.push({ doc: message.doc, port: ports[0] as MessagePort });
    },
  };
  // happy-dom would load the frame; here its window is the test's.
  vi.spyOn(HTMLIFrameElement.prototype, "contentWindow", "get").mockImplementation(() => pageWindow as never);
  vi.spyOn(HTMLIFrameElement.prototype, "src", "set").mockImplementation(function (this: HTMLIFrameElement, src) {
    this.dataset.src = src;
  });
});
afterEach(async () => {
  for (const frame of frames) await frame.close();
  vi.restoreAllMocks();
});

async function open(answer?: () => Response, rest?: () => Response) {
  const frame = await openFrame({
    app: "chat",
    title: "Chat",
    mount,
    send: async (input, init) => {
      calls.push(`${init?.method ?? "GET"} ${String(input)}`);
      if (init?.method === "POST" && String(input).endsWith("/frame")) {
        return answer?.() ?? Response.json({ token: TOKEN, url: "https://evil.example/" });
      }
      return rest?.() ?? new Response("ok");
    },
    onDownload: () => {},
    onLink: () => {},
    onStop: (reason) => stops.push(reason),
  });
  frames.push(frame);
  return frame;
}

const hello = (doc: string, source: unknown = pageWindow) =>
  dispatchEvent(new MessageEvent("message", { data: { chrysalis: 1, t: "hello", doc }, source: source as never }));

describe("an app's frame", () => {
  it("has an opaque origin, no permissions, and an address made from its token alone", async () => {
    const { iframe } = await open();
    expect(iframe.getAttribute("sandbox")).toBe(FRAME_SANDBOX);
    expect(FRAME_SANDBOX.split(" ").sort()).toEqual(["allow-forms", "allow-scripts"]);
    expect(iframe.getAttribute("allow")).toBe("");
    expect(iframe.getAttribute("referrerpolicy")).toBe("no-referrer");
    expect(iframe.dataset.src).toBe(`/frame/${TOKEN}/`);
  });

  it("knows when the engine does not know its token any more", async () => {
    let status = 200;
    const frame = await open(undefined, () => new Response("{}", { status }));
    expect(await frame.alive()).toBe(true);
    expect(calls.at(-1)).toBe("GET /v1/apps/chat/__storage");
    status = 403;
    expect(await frame.alive()).toBe(false);
  });

  it("gives a port to its own window only, once for each document", async () => {
    await open();
    hello("one", window);
    hello("one", { postMessage: () => {} });
    expect(given).toEqual([]);
    hello("one");
    hello("one");
    expect(given.map((g) => g.doc)).toEqual(["one"]);
  });

  it("closes the port of the document before, and all that it had asked for", async () => {
    await open();
    hello("one");
    const first = given[0] as Given;
    first.port.postMessage({ t: "fetch", id: 1, method: "GET", url: "/v1/apps/chat/a", headers: [] });
    await expect.poll(() => calls).toContain("GET /v1/apps/chat/a");
    hello("two");
    expect(given.map((g) => g.doc)).toEqual(["one", "two"]);
    first.port.postMessage({ t: "fetch", id: 2, method: "GET", url: "/v1/apps/chat/old", headers: [] });
    given[1]?.port.postMessage({ t: "fetch", id: 1, method: "GET", url: "/v1/apps/chat/new", headers: [] });
    await expect.poll(() => calls).toContain("GET /v1/apps/chat/new");
    expect(calls).not.toContain("GET /v1/apps/chat/old");
    for (const { port } of given) port.close();
  });

  it("gives its token back when it is closed, after what it had stored is out", async () => {
    const frame = await open();
    hello("one");
    given[0]?.port.postMessage({ t: "storage", which: "local", op: "set", key: "a", value: "b" });
    await expect.poll(() => calls.some((c) => c.endsWith("/__storage"))).toBe(true);
    await frame.close();
    expect(calls).toEqual([
      "POST /v1/apps/chat/frame",
      "POST /v1/apps/chat/__storage",
      `DELETE /v1/apps/chat/frame/${TOKEN}`,
    ]);
    expect(mount.querySelector("iframe")).toBeNull();
    hello("two");
    expect(given.length).toBe(1);
    given[0]?.port.close();
  });

  it("is stopped when its window floods the shell", async () => {
    await open();
    for (let i = 0; i < 200; i++) hello(`doc${i}`);
    expect(stops).toEqual(["flood"]);
    expect(mount.querySelector("iframe")).toBeNull();
    for (const { port } of given) port.close();
  });

  it("is not opened without a token that can stand in a path", async () => {
    for (const token of ["", "../../v1", "a b", 7, null, "x".repeat(500)]) {
      await expect(open(() => Response.json({ token }))).rejects.toThrow(FrameError);
    }
    await expect(open(() => Response.json({ error: "no such app" }, { status: 404 }))).rejects.toThrow("no such app");
    expect(mount.querySelector("iframe")).toBeNull();
  });
});

describe("the handshake's first message", () => {
  it.each([
    null,
    1,
    "x",
    {},
    { chrysalis: 1, t: "hello" },
    { chrysalis: 1, t: "hello", doc: "" },
    { chrysalis: "1", t: "hello", doc: "a" },
    { chrysalis: 1, t: "hello", doc: "x".repeat(65) },
  ])("is not %j", (data) => expect(readHello(data)).toBeNull());
});

describe("the note about browsers", () => {
  const browser = (brands?: { brand: string; version: string }[]) =>
    leavesPreconnectsOpen((brands ? { userAgentData: { brands } } : {}) as unknown as Navigator);
  it("is for every browser that is not known to hold frames in", () => {
    expect(browser()).toBe(true);
    expect(browser([{ brand: "Chromium", version: "156" }])).toBe(false);
    expect(browser([{ brand: "Chromium", version: "120" }])).toBe(true);
    expect(browser([{ brand: "Not A Brand", version: "999" }])).toBe(true);
  });
});
