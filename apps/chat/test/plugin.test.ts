import { afterEach, describe, expect, test, vi } from "vitest";
import { handleRoute } from "../plugins/chat/plugin.js";
import { makeHost, type Request } from "./host";

type Reply = { status?: number; json: Record<string, any> } | undefined;
type Answerer = Parameters<typeof makeHost>[0];

const says =
  (...words: string[]): Answerer =>
  () => ({ parts: words.map((delta) => ({ delta })), result: { text: words.join(""), model: "m/x" } });

function chat(answer: Answerer = says("Hello", " there")) {
  const fake = makeHost(answer);
  const call = (method: string, path: string, body?: unknown, query = {}): Promise<Reply> =>
    handleRoute({ method, path, query, body }, fake.host);
  const ok = async (method: string, path: string, body?: unknown, query = {}) => {
    const reply = await call(method, path, body, query);
    expect(reply?.json.error).toBeUndefined();
    expect(reply?.status ?? 200).toBeLessThan(300);
    return reply?.json as Record<string, any>;
  };
  const create = async () => (await ok("POST", "/conversations", { model: "m/x" })).conversation.id as string;
  const open = (id: string, query = {}) => ok("GET", `/conversations/${id}`, undefined, query);
  return { ...fake, call, ok, create, open };
}

afterEach(() => {
  vi.useRealTimers();
});

describe("conversations", () => {
  test("are created, titled by their first message, renamed and listed newest first", async () => {
    vi.useFakeTimers();
    const c = chat();
    vi.setSystemTime(1000);
    const a = await c.create();
    vi.setSystemTime(2000);
    const b = await c.create();
    expect((await c.ok("GET", "/conversations")).conversations.map((x: any) => x.id)).toEqual([b, a]);
    vi.setSystemTime(3000);
    await c.ok("POST", `/conversations/${a}/send`, { text: "  What is\n a chrysalis? " });
    const { conversations } = await c.ok("GET", "/conversations");
    expect(conversations.map((x: any) => [x.id, x.title])).toEqual([
      [a, "What is a chrysalis?"],
      [b, "New conversation"],
    ]);
    await c.ok("PATCH", `/conversations/${a}`, { title: "Insects", model: "m/y" });
    await c.ok("POST", `/conversations/${a}/send`, { text: "And then?" });
    expect((await c.open(a)).conversation).toMatchObject({ title: "Insects", model: "m/y", count: 4 });
    expect(c.requests[1]?.model).toBe("m/y");
  });

  test("a deleted one can be brought back with everything in it, for a while", async () => {
    vi.useFakeTimers();
    const c = chat();
    const id = await c.create();
    await c.ok("POST", `/conversations/${id}/send`, { text: "keep me" });
    await c.ok("DELETE", `/conversations/${id}`);
    expect((await c.ok("GET", "/conversations")).conversations).toEqual([]);
    expect((await c.call("GET", `/conversations/${id}`))?.status).toBe(404);
    await c.ok("PATCH", `/conversations/${id}`, { deleted: false });
    expect((await c.open(id)).messages.map((m: any) => m.text)).toEqual(["keep me", "Hello there"]);
    await c.ok("DELETE", `/conversations/${id}`);
    vi.advanceTimersByTime(11 * 60 * 1000);
    await c.ok("GET", "/conversations");
    expect([...c.values.keys()]).toEqual([]);
  });

  test.each([
    ["GET", "/conversations/nothere", 404],
    ["GET", "/conversations/..%2f", 404],
    ["GET", "/conversations/__proto__", 404],
    ["POST", "/conversations/nothere/send", 404],
    ["PATCH", "/conversations/c:x", 404],
  ])("%s %s answers %i", async (method, path, status) => {
    expect((await chat().call(method, path, { text: "x" }))?.status).toBe(status);
  });

  test.each([
    ["GET", "/"],
    ["GET", "/else"],
    ["PUT", "/conversations"],
    ["GET", "/conversations/a/b/c"],
    ["POST", "/conversations/a/other"],
  ])("%s %s is left to other plugins", async (method, path) => {
    expect(await chat().call(method, path, {})).toBeUndefined();
  });

  test("bad bodies are refused in words", async () => {
    const c = chat();
    const id = await c.create();
    for (const body of [undefined, null, [], 5, {}, { text: 5 }, { text: " \n" }]) {
      expect(await c.call("POST", `/conversations/${id}/send`, body)).toMatchObject({ status: 400 });
    }
    expect(await c.call("POST", `/conversations/${id}/send`, "{oops")).toMatchObject({ status: 400 });
    expect(await c.call("POST", `/conversations/${id}/send`, { text: "x".repeat(200_001) })).toMatchObject({
      status: 413,
      json: { error: expect.stringContaining("200001 characters") },
    });
    expect(await c.call("PATCH", `/conversations/${id}`, { title: "  " })).toMatchObject({ status: 400 });
    expect((await c.open(id)).messages).toEqual([]);
  });
});

describe("answers", () => {
  test("the whole conversation goes to the model, under the page's stream name", async () => {
    const c = chat();
    const id = await c.create();
    const chatId = `${id}:1:abc`;
    const { message } = await c.ok("POST", `/conversations/${id}/send`, { text: "Hi", model: "m/x", chatId });
    expect(message).toMatchObject({ n: 1, role: "assistant", text: "Hello there", state: "done", model: "m/x", chatId });
    await c.ok("POST", `/conversations/${id}/send`, { text: "More", chatId: "someone:else" });
    expect(c.requests[0]).toEqual({
      messages: [{ role: "user", content: "Hi" }],
      model: "m/x",
      stream: { chatId, name: "answer" },
    });
    expect(c.requests[1]?.messages).toEqual([
      { role: "user", content: "Hi" },
      { role: "assistant", content: "Hello there" },
      { role: "user", content: "More" },
    ]);
    expect(c.requests[1]?.stream.chatId).toMatch(new RegExp(`^${id}:3:[a-z0-9]+$`));
  });

  test("question and pending answer are kept before the model is asked", async () => {
    let seen: unknown;
    const c = chat((request: Request) => {
      seen = [...c.values.keys()].sort();
      expect(JSON.parse(c.values.get(`m:${id}:1`) as string)).toMatchObject({ state: "pending", chatId: request.stream.chatId });
      return { parts: [], result: { text: "late text" } };
    });
    const id = await c.create();
    const { message } = await c.ok("POST", `/conversations/${id}/send`, { text: "Hi" });
    expect(seen).toEqual([`c:${id}`, `m:${id}:0`, `m:${id}:1`]);
    expect(message).toMatchObject({ text: "late text", state: "done" });
  });

  test("partial text is kept at most 250 ms late, also when nothing more comes", async () => {
    vi.useFakeTimers();
    let more: () => void = () => {};
    const parts = async function* () {
      for (let i = 0; i < 100; i++) {
        yield { delta: `${i} ` };
        await new Promise((done) => setTimeout(done, 10));
      }
      await new Promise<void>((done) => {
        more = done;
      });
      yield { delta: "end" };
    };
    const c = chat(() => ({ parts: parts(), result: { text: "" } }));
    const id = await c.create();
    const sending = c.ok("POST", `/conversations/${id}/send`, { text: "count" });
    await vi.advanceTimersByTimeAsync(5000);
    const saved = () => JSON.parse(c.values.get(`m:${id}:1`) as string);
    expect(saved()).toMatchObject({ state: "pending", text: Array.from({ length: 100 }, (_, i) => `${i} `).join("") });
    const times = c.puts.filter((put) => put.key === `m:${id}:1`).map((put) => put.at);
    // The first is the empty one before the model is asked, the second has the first words.
    for (let i = 2; i < times.length; i++) expect(times[i]! - times[i - 1]!).toBeGreaterThanOrEqual(250);
    expect(times.length).toBeGreaterThan(3);
    more();
    expect((await sending).message.text).toMatch(/99 end$/);
    expect(saved().state).toBe("done");
  });

  test.each([
    [{ stopped: true }, { state: "stopped", text: "Hello" }],
    [{ error: "openai/x: 500 upstream" }, { state: "error", text: "Hello", error: "openai/x: 500 upstream" }],
    [{ text: "Hello", truncated: true }, { state: "interrupted", text: "Hello" }],
  ])("%o keeps what had come", async (result, want) => {
    const c = chat(() => ({ parts: [{ thinking: "hm" }, { delta: "Hello" }], result: result as never }));
    const id = await c.create();
    const { message } = await c.ok("POST", `/conversations/${id}/send`, { text: "Hi" });
    expect(message).toMatchObject({ ...want, thinking: "hm" });
    expect((await c.open(id)).messages[1]).toEqual(message);
  });

  test("a model call that throws is an error of that answer", async () => {
    const c = chat(() => {
      throw new Error("the permission llm is not granted");
    });
    const id = await c.create();
    const { message } = await c.ok("POST", `/conversations/${id}/send`, { text: "Hi" });
    expect(message).toMatchObject({ state: "error", error: "the permission llm is not granted" });
  });

  test("a request that a browser repeats asks nothing twice", async () => {
    const c = chat();
    const id = await c.create();
    const body = { text: "Hi", chatId: `${id}:1:a` };
    const first = await c.ok("POST", `/conversations/${id}/send`, body);
    expect(await c.ok("POST", `/conversations/${id}/send`, body)).toEqual(first);
    expect(await c.ok("POST", `/conversations/${id}/retry`, { chatId: body.chatId })).toEqual(first);
    c.host.store.put(`m:${id}:1`, { ...first.message, state: "pending" });
    expect(await c.call("POST", `/conversations/${id}/send`, body)).toMatchObject({ status: 409, json: { code: "running" } });
    expect(c.requests).toHaveLength(1);
    expect((await c.open(id)).messages).toHaveLength(2);
  });

  test("an answer that a killed engine left behind is marked, with its text, and only for its own stream", async () => {
    const c = chat();
    const id = await c.create();
    await c.ok("POST", `/conversations/${id}/send`, { text: "Hi" });
    c.host.store.put(`m:${id}:1`, { n: 1, role: "assistant", text: "half", at: 1, state: "pending", chatId: `${id}:1:a` });
    expect((await c.open(id, { lost: `${id}:1:b` })).messages[1].state).toBe("pending");
    expect(await c.call("POST", `/conversations/${id}/send`, { text: "More" })).toMatchObject({ status: 409 });
    expect((await c.open(id, { lost: `${id}:1:a` })).messages[1]).toMatchObject({ state: "interrupted", text: "half" });
    await c.ok("POST", `/conversations/${id}/send`, { text: "More" });
    expect(c.requests.at(-1)?.messages[1]).toEqual({ role: "assistant", content: "half" });
  });
});

describe("retry", () => {
  test("replaces the last answer, and gives it back when nothing better came", async () => {
    let next: Answerer = says("first");
    const c = chat((request) => next(request));
    const id = await c.create();
    await c.ok("POST", `/conversations/${id}/send`, { text: "Hi" });
    next = says("second");
    const again = await c.ok("POST", `/conversations/${id}/retry`, { model: "m/z" });
    expect(again.message).toMatchObject({ n: 1, text: "second", state: "done", model: "m/z" });
    expect(again.message.previous).toBeUndefined();
    expect(c.requests[1]?.messages).toEqual([{ role: "user", content: "Hi" }]);
    next = () => ({ parts: [], result: { error: "server down" } });
    const failed = await c.ok("POST", `/conversations/${id}/retry`, {});
    expect(failed.message).toMatchObject({ text: "second", state: "done", retryFailed: "server down" });
    next = () => ({ parts: [{ delta: "thi" }], result: { stopped: true } });
    const stopped = await c.ok("POST", `/conversations/${id}/retry`, {});
    expect(stopped.message).toMatchObject({ text: "thi", state: "stopped" });
    expect((await c.open(id)).messages).toHaveLength(2);
  });

  test("an earlier answer survives a kill in the middle of its retry", async () => {
    let c = chat(says("first"));
    const id = await c.create();
    await c.ok("POST", `/conversations/${id}/send`, { text: "Hi" });
    const { values } = c;
    c = chat(() => ({ parts: (async function* () { await new Promise(() => {}); })(), result: {} }));
    for (const [key, value] of values) c.values.set(key, value);
    void c.call("POST", `/conversations/${id}/retry`, { chatId: `${id}:1:zz` });
    const pending = (await c.open(id)).messages[1];
    expect(pending).toMatchObject({ state: "pending", text: "" });
    const { messages } = await c.open(id, { lost: pending.chatId });
    expect(messages[1]).toMatchObject({ text: "first", state: "done", retryFailed: "it was interrupted" });
  });

  test("there must be something to retry", async () => {
    const c = chat();
    expect(await c.call("POST", `/conversations/${await c.create()}/retry`, {})).toMatchObject({ status: 409 });
  });
});

describe("a full store", () => {
  test("takes no question that it cannot keep, says so, and loses nothing", async () => {
    const c = chat();
    const id = await c.create();
    await c.ok("POST", `/conversations/${id}/send`, { text: "Hi" });
    const before = [...c.values];
    c.state.limit = before.reduce((sum, [k, v]) => sum + k.length + v.length, 0) + 350;
    const reply = await c.call("POST", `/conversations/${id}/send`, { text: "x".repeat(200) });
    expect(reply).toMatchObject({ status: 507, json: { code: "full", error: expect.stringContaining("storage is full") } });
    expect([...c.values]).toEqual(before);
    expect(c.requests).toHaveLength(1);
  });

  test("frees what was deleted first", async () => {
    const c = chat();
    const old = await c.create();
    await c.ok("POST", `/conversations/${old}/send`, { text: "y".repeat(1000) });
    await c.ok("DELETE", `/conversations/${old}`);
    const id = await c.create();
    c.state.limit = [...c.values].reduce((sum, [k, v]) => sum + k.length + v.length, 0) + 200;
    await c.ok("POST", `/conversations/${id}/send`, { text: "z".repeat(300) });
    expect([...c.values.keys()].some((key) => key.includes(old))).toBe(false);
  });

  test("does not end an answer: what could be kept is kept, and the rest is shown and marked", async () => {
    const c = chat(() => ({ parts: [{ delta: "a".repeat(100) }, { delta: "b".repeat(5000) }], result: { text: "" } }));
    const id = await c.create();
    c.state.limit = 2000;
    const { message } = await c.ok("POST", `/conversations/${id}/send`, { text: "Hi" });
    expect(message).toMatchObject({ state: "done", unsaved: expect.stringContaining("full") });
    expect(message.text).toHaveLength(5100);
    expect((await c.open(id)).messages[0].text).toBe("Hi");
  });

  test("still deletes and still opens", async () => {
    const c = chat();
    const id = await c.create();
    await c.ok("POST", `/conversations/${id}/send`, { text: "Hi" });
    c.host.store.put(`m:${id}:1`, { n: 1, role: "assistant", text: "h", state: "pending", chatId: "x", at: 1 });
    c.state.limit = 0;
    expect((await c.open(id, { lost: "x" })).messages[1].state).toBe("interrupted");
    await c.ok("DELETE", `/conversations/${id}`);
    expect([...c.values.keys()]).toEqual([]);
  });
});
