// Contract 3.4: `host.store`, one value per key, 1 MiB in all; `undefined` is kept as null.
const thrown = (what) => { try { what(); return null } catch (e) { return String(e.message ?? e) } };

export function handleRoute(req, host) {
  const { store } = host;
  if (req.path === "/later") return { json: { a: store.get("a"), keys: store.keys() } };
  if (req.path !== "/rule") return;
  const missing = store.get("missing");
  store.put("a", { n: [1, null, "ü"], left: undefined });
  store.put("undefined", undefined);
  store.put("null", null);
  store.put("false", false);
  store.put("gone", 1);
  store.delete("gone");
  store.delete("never there");
  const copy = store.get("a");
  copy.n.push("only in the copy");
  const kept = store.keys();
  const over = thrown(() => store.put("big", "x".repeat((1 << 20) + 1)));
  return {
    json: {
      missing, a: store.get("a"), undefined: store.get("undefined"), false: store.get("false"), gone: store.get("gone"),
      keys: kept, over, afterwards: store.keys(), put: store.put("b", 1) ?? "nothing", odd: store.get("__proto__"),
    },
  };
}
