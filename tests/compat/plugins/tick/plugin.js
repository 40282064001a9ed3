// Contract 3.2 and 3.5: `onTick({pluginId}, host)`; what it gives is broadcast. The interval is at least 5 s.
export function onTick(ctx, host) {
  const { results, embedResults } = host.llm;
  const n = (host.store.get("passes") ?? 0) + 1;
  host.store.put("passes", n);
  if (!results.a) {
    host.llm.embed("e", { texts: ["tick"] });
    host.net.request("n", { url: "http://WEB_HOST/json" });
    host.llm.request("a", { messages: [{ role: "user", content: "tick" }], stream: { chatId: "tick", name: "t" } });
    return { __llmPending: true };
  }
  if (!results.b) {
    host.llm.request("b", { messages: [{ role: "user", content: `tock ${results.a.text}` }] });
    return;
  }
  return { ctx, passes: n, text: results.b.text, vectors: embedResults.e, page: host.net.results.n.json };
}
export function handleRoute(req, host) {
  if (req.path === "/rule") return { json: { waits: (host.store.get("passes") ?? 0) >= 0 } };
}
