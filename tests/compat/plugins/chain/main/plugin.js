// Asks a model as it is told, in either form.
export async function handleRoute(req, host) {
  const request = req.body?.request ?? { messages: [{ role: "user", content: "hi" }] };
  if (req.path === "/ask") return { json: await host.llm.generate(request) };
  if (req.path === "/parts") {
    const run = host.llm.stream(request);
    let text = "";
    for await (const part of run) text += part.delta ?? "";
    return { json: { live: text, result: await run.result } };
  }
  if (req.path === "/three") {
    const n = req.stash?.n ?? 0;
    if (n === 0) {
      host.llm.embed("e", { texts: ["x"] });
      host.net.request("n", { url: "http://WEB_HOST/json" });
      return { __llmPending: true, stash: { n: 1 } };
    }
    if (n === 1) {
      host.llm.request("the-key", request);
      return { __llmPending: true, stash: { n: 2, page: host.net.results.n.json, e: host.llm.embedResults.e } };
    }
    if (!req.stash.page || !req.stash.e) throw new Error("lost");
    return { json: host.llm.results["the-key"] };
  }
}
