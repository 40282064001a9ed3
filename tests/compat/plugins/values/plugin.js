// What a plugin may hand over: every value that JSON can say, half an emoji too, and keys as JavaScript takes them.
const thrown = (what) => { try { what(); return null } catch (e) { return String(e.message ?? e) } };
export function handleRoute(req, host) {
  const { store, fs } = host;
  if (req.path === "/half") return { json: { half: "\u{1f600}".slice(0, 1), [`\ud83d`]: 1 } };
  if (req.path === "/half-text") return { text: "a\u{1f600}".slice(0, 2) };
  // Numbers as keys: a store that is an object takes them as their text, and so do results.
  if (req.path === "/keys") {
    if (!host.llm.results[7]) {
      host.llm.request(7, { messages: [{ role: "user", content: "seven \ud83d" }] });
      host.llm.embed(8, { texts: ["eight\ud83d"] });
      return { __llmPending: true, stash: { half: "\ude00" } };
    }
    store.put(5, "five");
    store.put("half", "\ud83d");
    store.put("\ud83d", "as a key");
    return { json: { llm: host.llm.results[7].text, embed: host.llm.embedResults[8], five: [store.get(5), store.get("5")], half: store.get("half").length, stash: req.stash.half.length, gone: store.delete(5) && store.get("5") } };
  }
  if (req.path !== "/rule") return;
  const deep = (levels) => (levels ? [deep(levels - 1)] : 1);
  const values = {
    numbers: [0, -0, 1.5, 1e300, -1e-300, 2 ** 53, 12345678901234567890, NaN, Infinity],
    texts: ["", "\0", "\u2028", "\u{1f600}", "</script>", "\\u0000"],
    "": "empty", " ": "blank", 2: "two", 1: "one", "b": 1, "a": 2, "ü": 3,
    date: new Date(0), none: undefined, list: [undefined, () => 1, Symbol("s")], map: new Map([[1, 2]]),
    deep: deep(100), own: JSON.parse("{\"__proto__\": {\"a\": 1}, \"constructor\": 1}"),
  };
  store.put("values", values);
  fs.write("values.json", JSON.stringify(values));
  const kept = store.get("values");
  return {
    json: {
      same: JSON.stringify(kept) === JSON.stringify(JSON.parse(JSON.stringify(values))),
      file: JSON.stringify(JSON.parse(fs.read("values.json"))) === JSON.stringify(kept),
      keys: Object.keys(kept), own: Object.keys(kept.own), proto: Object.getPrototypeOf(kept.own) === Object.prototype, values: kept,
    },
  };
}
