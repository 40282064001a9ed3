// Contract 3.5: GET and HEAD are asked once more when the worker died under them.
export async function handleRoute(req, host) {
  const { store } = host;
  if (req.path === "/forget") return { json: store.put("begun", 0) ?? "nothing" };
  const late = req.path === "/late";
  if (!late && req.path !== "/now") return;
  // The second of three passes.
  if (late && !req.stash) {
    host.llm.request("a", { messages: [{ role: "user", content: "x" }] });
    host.llm.embed("e", { texts: ["x"] });
    host.net.request("n", { url: "http://WEB_HOST/json" });
    return { __llmPending: true, stash: { n: 1 } };
  }
  if (late && req.stash.n === 2) return { json: { times: store.get("begun"), all: [host.llm.results.a.text, host.llm.results.b.text] } };
  const times = (store.get("begun") ?? 0) + 1;
  store.put("begun", times);
  if (times <= Number(req.query.deaths)) await host.net.fetch({ url: "http://WEB_HOST/silent", timeoutMs: 60000 });
  if (!late) return { json: { times } };
  host.llm.request("b", { messages: [{ role: "user", content: "y" }] });
  return { __llmPending: true, stash: { n: 2 } };
}
