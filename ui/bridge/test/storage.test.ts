import { describe, expect, test, vi } from "vitest";
import { makeStorage, StorageWrites } from "../src/storage";
import type { Out } from "../src/wire";
import { appPage } from "./fake";

function storage(initial: Record<string, string> = {}, quota = 100) {
  const written: Out[] = [];
  class Storage {}
  return { written, store: makeStorage("local", initial, quota, (m) => written.push(m), Storage.prototype), Storage };
}

describe("a Storage", () => {
  test("starts with the engine's values and writes through", () => {
    const { store, written, Storage } = storage({ a: "1", b: "2" });
    expect(store).toBeInstanceOf(Storage);
    expect([store.length, store.key(0), store.key(1), store.key(2), store.getItem("c")]).toEqual([
      2,
      "a",
      "b",
      null,
      null,
    ]);
    store.setItem("c", 3 as never);
    store.d = "4";
    delete store.a;
    store.removeItem("nothing");
    store.setItem("c", "3");
    expect(written).toEqual([
      { t: "storage", which: "local", op: "set", key: "c", value: "3" },
      { t: "storage", which: "local", op: "set", key: "d", value: "4" },
      { t: "storage", which: "local", op: "remove", key: "a" },
    ]);
    expect({ ...store }).toEqual({ b: "2", c: "3", d: "4" });
    expect(Object.keys(store)).toEqual(["b", "c", "d"]);
    expect(JSON.stringify(store)).toBe('{"b":"2","c":"3","d":"4"}');
    expect(["b" in store, "a" in store, "getItem" in store, store.b, store.a]).toEqual([
      true,
      false,
      true,
      "2",
      undefined,
    ]);
    store.clear();
    store.clear();
    expect(store.length).toBe(0);
    expect(written.filter((m) => m.op === "clear")).toHaveLength(1);
  });

  test("keys called like methods or like the prototype's keys harm nothing", () => {
    const { store } = storage({ getItem: "x", __proto__x: "y" });
    store.setItem("__proto__", "p");
    store.setItem("length", "l");
    expect(store.getItem("getItem")).toBe("x");
    expect(store.getItem("__proto__")).toBe("p");
    expect([store.length, store.getItem("length")]).toEqual([4, "l"]);
    expect(typeof store.getItem).toBe("function");
  });

  test("over the quota it throws before anything is lost", () => {
    const { store, written } = storage({ a: "x".repeat(20) });
    store.setItem("b", "y".repeat(27));
    let error: unknown;
    try {
      store.setItem("a", "z".repeat(22));
    } catch (caught) {
      error = caught;
    }
    expect(error).toBeInstanceOf(DOMException);
    expect(error).toMatchObject({ name: "QuotaExceededError", code: 22 });
    expect(store.getItem("a")).toBe("x".repeat(20));
    expect(written).toHaveLength(1);
    store.removeItem("b");
    store.setItem("a", "z".repeat(49));
    expect(() => store.setItem("a", "z".repeat(50))).toThrow(/102 of 100 bytes/);
  });

  test("what cannot travel reads back as it was kept", () => {
    const { store, written } = storage();
    store.setItem("k", "a\ud800b");
    expect(store.getItem("k")).toBe("a\ufffdb");
    expect(written[0]?.value).toBe("a\ufffdb");
  });
});

describe("writes", () => {
  test("a big one goes as a request, and those after it wait, in order", async () => {
    const page = appPage();
    const failed: string[] = [];
    const writes = new StorageWrites(page.exchange, page.fetch, "demo", (_which, key) => failed.push(key));
    const set = (key: string, value: string): Out => ({ t: "storage", which: "local", op: "set", key, value });
    writes.write(set("a", "1"));
    writes.write(set("big", "x".repeat(600_000)));
    writes.write(set("big", "small again"));
    expect(page.of("storage").map((m) => m.key)).toEqual(["a"]);
    const sent = await page.sentMessage("fetch");
    expect(sent).toMatchObject({ method: "POST", url: "/v1/apps/demo/__storage" });
    page.deliver({ t: "head", id: 1, status: 413, statusText: "", headers: [] });
    page.deliver({ t: "chunk", id: 1, text: '{"error":"full","code":"quota"}' }, { t: "end", id: 1 });
    await page.sentMessage("storage", 1);
    expect(page.of("storage").map((m) => m.value)).toEqual(["1", "small again"]);
    expect(failed).toEqual(["big"]);
    page.deliver({ t: "storage-error", which: "local", op: "set", key: "a", message: "full" });
    expect(failed).toEqual(["big", "a"]);
  });

  test("a loop of writes goes out at a pace, each key with its last value, and nothing is left out", async () => {
    const page = appPage();
    const writes = new StorageWrites(page.exchange, page.fetch, "demo", () => {});
    for (let i = 0; i < 20_000; i++) {
      writes.write({ t: "storage", which: "local", op: "set", key: `k${i % 1000}`, value: String(i) });
    }
    expect(page.of("storage")).toHaveLength(400);
    writes.write({ t: "storage", which: "session", op: "set", key: "k1", value: "s" });
    await vi.waitFor(() => expect(page.of("storage").at(-1)?.which).toBe("session"), { timeout: 4000, interval: 20 });
    // 400 at once, and each of the 1,000 keys once more.
    expect(page.of("storage")).toHaveLength(1401);
    const last = new Map(page.of("storage").map((m) => [`${m.which}${m.key}`, m.value]));
    for (let i = 0; i < 1000; i++) expect(last.get(`localk${i}`)).toBe(String(19_000 + i));
    expect(last.get("sessionk1")).toBe("s");
  });

  test("a clearing takes waiting writes of its own store with it; a page that goes leaves nothing behind", () => {
    const page = appPage();
    const writes = new StorageWrites(page.exchange, page.fetch, "demo", () => {});
    for (let i = 0; i < 500; i++) writes.write({ t: "storage", which: "local", op: "set", key: `k${i}`, value: "" });
    writes.write({ t: "storage", which: "session", op: "set", key: "s", value: "" });
    writes.write({ t: "storage", which: "local", op: "clear" });
    writes.write({ t: "storage", which: "local", op: "set", key: "after", value: "" });
    writes.flush();
    const sent = page.of("storage").slice(400);
    expect(sent.map((m) => `${m.which} ${m.op} ${m.key ?? ""}`)).toEqual([
      "session set s",
      "local clear ",
      "local set after",
    ]);
  });
});
