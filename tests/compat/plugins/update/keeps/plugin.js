// Contract 3.2: `onAppUpdate({from, to}, host)` after an update; what it gives is ignored.
export function onAppUpdate(ctx, host) {
  const { results } = host.llm;
  if (!results.a) {
    host.llm.embed("e", { texts: ["update"] });
    host.net.request("n", { url: "http://WEB_HOST/json" });
    host.llm.request("a", { messages: [{ role: "user", content: "update" }], stream: { chatId: "update", name: "u" } });
    return { __llmPending: true, stash: { no: "stash here" } };
  }
  if (!results.b) {
    host.llm.request("b", { messages: [{ role: "user", content: `again ${results.a.text}` }] });
    return { status: 500, json: { error: "ignored" } };
  }
  host.store.put("update", { ctx, b: results.b.text, e: host.llm.embedResults.e, n: host.net.results.n.json });
  return { status: 500, error: "ignored" };
}
export function handleRoute(req, host) {
  if (req.path === "/seen") return { json: host.store.get("update") };
}
