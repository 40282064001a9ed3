// Contract 3.3: queued requests are done one after another: embeddings, network, LLM.
const ask = (text) => ({ messages: [{ role: "user", content: text }] });
export function handleRoute(req, host) {
  if (req.path !== "/rule") return;
  if (!host.llm.results.one) {
    host.llm.request("one", ask("one"));
    host.net.request("a", { url: "http://WEB_HOST/a" });
    host.llm.request("two", ask("two"));
    host.llm.embed("e", { texts: ["x"] });
    host.net.request("b", { url: "http://WEB_HOST/b" });
    host.llm.embed("f", { texts: ["y"] });
    return { __llmPending: true };
  }
  return { json: Object.keys(host.llm.results) };
}
