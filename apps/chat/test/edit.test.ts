import { describe, expect, test, vi } from "vitest";
import { handleRoute } from "../plugins/chat/plugin.js";
import { makeHost } from "./host";

type Reply = { status?: number; json: Record<string, any> } | undefined;
type Answerer = Parameters<typeof makeHost>[0];
const IMAGE = `/v1/assets/${"a".repeat(64)}`;

function chat(answer: Answerer = () => ({ parts: [{ delta: "Yes" }], result: { text: "Yes", model: "m/x" } })) {
  const fake = makeHost(answer);
  const call = (method: string, path: string, body?: unknown, query = {}): Promise<Reply> =>
    handleRoute({ method, path, query, body }, fake.host);
  const ok = async (method: string, path: string, body?: unknown, query = {}) => {
    const reply = await call(method, path, body, query);
    expect(reply?.json.error).toBeUndefined();
    return reply?.json as Record<string, any>;
  };
  const texts = async (id: string) => (await ok("GET", `/conversations/${id}`)).messages.map((m: any) => m.text);
  return { ...fake, call, ok, texts };
}

async function withThree(c: ReturnType<typeof chat>) {
  const { id } = (await c.ok("POST", "/conversations", { model: "m/x" })).conversation;
  for (const text of ["one", "two", "three"]) await c.ok("POST", `/conversations/${id}/send`, { text });
  return id as string;
}

describe("editing", () => {
  test("asks anew from there, and can be undone", async () => {
    const c = chat();
    const id = await withThree(c);
    await c.ok("POST", `/conversations/${id}/edit`, { n: 2, text: "TWO" });
    expect(await c.texts(id)).toEqual(["one", "Yes", "TWO", "Yes"]);
    expect(c.requests.at(-1)?.messages.map((m) => m.content)).toEqual(["one", "Yes", "TWO"]);
    expect([...c.values.keys()].filter((key) => key.startsWith("m:"))).toHaveLength(4);
    await c.ok("POST", `/conversations/${id}/send`, { text: "four" });
    const { messages } = await c.ok("POST", `/conversations/${id}/unedit`, {});
    expect(messages.map((m: any) => m.text)).toEqual(["one", "Yes", "two", "Yes", "three", "Yes"]);
    expect(await c.texts(id)).toEqual(["one", "Yes", "two", "Yes", "three", "Yes"]);
    expect(await c.call("POST", `/conversations/${id}/unedit`, {})).toMatchObject({ status: 409 });
    expect([...c.values.keys()].some((key) => key.startsWith("e:"))).toBe(false);
  });

  test("only a message of one's own, and not while an answer is written", async () => {
    const c = chat();
    const id = await withThree(c);
    for (const n of [1, -1, 6, 1.5, "0", null]) {
      expect(await c.call("POST", `/conversations/${id}/edit`, { n, text: "x" })).toMatchObject({ status: 400 });
    }
    const pending = { n: 5, role: "assistant", text: "", state: "pending", chatId: "x", at: 1 };
    c.host.store.put(`m:${id}:5`, pending);
    expect(await c.call("POST", `/conversations/${id}/edit`, { n: 0, text: "x" })).toMatchObject({ status: 409 });
    expect(await c.texts(id)).toHaveLength(6);
  });

  test("a full store takes no edit and loses nothing", async () => {
    const c = chat();
    const id = await withThree(c);
    const before = [...c.values];
    c.state.limit = before.reduce((sum, [k, v]) => sum + k.length + v.length, 0) + 50;
    expect(await c.call("POST", `/conversations/${id}/edit`, { n: 0, text: "x" })).toMatchObject({ status: 507 });
    expect([...c.values]).toEqual(before);
  });

  test("what it took away is freed after a while", async () => {
    vi.useFakeTimers();
    const c = chat();
    const id = await withThree(c);
    await c.ok("POST", `/conversations/${id}/edit`, { n: 0, text: "x" });
    vi.advanceTimersByTime(11 * 60 * 1000);
    await c.ok("GET", "/conversations");
    expect([...c.values.keys()].some((key) => key.startsWith("e:"))).toBe(false);
    vi.useRealTimers();
  });
});

describe("searching", () => {
  test("finds words in titles and messages, and shows where", async () => {
    const c = chat(() => ({ parts: [{ delta: `${"x ".repeat(60)}Butterflies fly 🦋 ${"y ".repeat(60)}` }], result: { text: "" } }));
    const { id } = (await c.ok("POST", "/conversations", { title: "Insects" })).conversation;
    await c.ok("POST", `/conversations/${id}/send`, { text: "Tell me" });
    await c.ok("POST", "/conversations", { title: "Cars" });
    const find = async (q: string) => (await c.ok("GET", "/conversations", undefined, { q })).conversations;
    const [hit, ...more] = await find("  FLY butterFLIES ");
    expect(more).toEqual([]);
    expect(hit).toMatchObject({ id, hit: { n: 1 } });
    expect(hit.hit.text).toMatch(/^….*Butterflies fly 🦋.*…$/);
    expect((await find("insects")).map((one: any) => one.title)).toEqual(["Insects"]);
    expect(await find("nothing such")).toEqual([]);
    expect(await find(" ")).toHaveLength(2);
  });
});

describe("images, thinking and cost", () => {
  test("images travel with their message", async () => {
    const c = chat();
    const { id } = (await c.ok("POST", "/conversations", {})).conversation;
    await c.ok("POST", `/conversations/${id}/send`, { text: "", images: [IMAGE] });
    await c.ok("POST", `/conversations/${id}/send`, { text: "And now?" });
    expect(c.requests[1]?.messages[0]).toEqual({ role: "user", content: "", images: [IMAGE] });
    expect(c.requests[1]?.messages[2]).toEqual({ role: "user", content: "And now?" });
    for (const images of [["https://example.com/a.png"], ["/v1/settings"], [5], Array(9).fill(IMAGE)]) {
      expect(await c.call("POST", `/conversations/${id}/send`, { text: "x", images })).toMatchObject({ status: 400 });
    }
  });

  test("an answer says what it cost, or that nobody knows", async () => {
    const usage = { input: 10, output: 5, cacheRead: 2, cacheWrite: 0, costTotal: 0.25 };
    let priced = true;
    const replay = { text: "Yes", messages: [] };
    const c = chat(() => ({
      parts: [{ thinking: "hm" }, { delta: "Yes" }],
      result: { text: "Yes", usage: { ...usage, priced }, reasoningTimeMs: 1500, replay } as any,
    }));
    const { id } = (await c.ok("POST", "/conversations", { reasoning: "high" })).conversation;
    const first = (await c.ok("POST", `/conversations/${id}/send`, { text: "a" })).message;
    expect(first).toMatchObject({ usage: { tokensIn: 12, tokensOut: 5, cost: 0.25 }, thoughtMs: 1500, thinking: "hm" });
    priced = false;
    const second = (await c.ok("POST", `/conversations/${id}/send`, { text: "b" })).message;
    expect(second.usage.cost).toBeNull();
    expect((c.requests[1] as any).reasoning).toBe("high");
    expect((c.requests[1]?.messages[1] as any).replay).toEqual(replay);
  });

  test("a level of thinking is one that exists", async () => {
    const c = chat();
    const { conversation } = await c.ok("POST", "/conversations", { reasoning: "enormous" });
    expect(conversation.reasoning).toBeNull();
    await c.ok("PATCH", `/conversations/${conversation.id}`, { reasoning: "low" });
    await c.ok("POST", `/conversations/${conversation.id}/send`, { text: "x" });
    expect((c.requests[0] as any).reasoning).toBe("low");
  });
});
