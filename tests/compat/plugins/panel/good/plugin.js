// Contract 3.2: `uiPanel` gives an object with a string `label`.
export function uiPanel(ctx, host) {
  if (!host.llm.results.a) {
    host.llm.embed("e", { texts: ["x"] });
    host.net.request("n", { url: "http://WEB_HOST/json" });
    host.llm.request("a", { messages: [{ role: "user", content: "panel" }], stream: { chatId: "panel", name: "p" } });
    return { label: "too early" };
  }
  if (!host.llm.results.b) {
    host.llm.request("b", { messages: [{ role: "user", content: `and ${host.llm.results.a.text}` }] });
    return { __llmPending: true };
  }
  const seen = [host.llm.embedResults.e, host.net.results.n.json, host.llm.results.b.text];
  return { label: "Good", seen, ctx, more: { any: [1] } };
}
