// Contract 3.4: `host.net`, in the awaited form and in three passes.
export function handleRoute(req, host) {
  const specs = Object.entries(req.body.specs ?? {});
  if (req.path === "/rule") {
    const all = specs.map(async ([key, spec]) => [key, await host.net.fetch(spec)]);
    return Promise.all(all).then((pairs) => ({ json: Object.fromEntries(pairs) }));
  }
  if (req.path !== "/queued") return;
  const n = req.stash?.n ?? 0;
  if (n === 0) {
    for (const [key, spec] of specs) host.net.request(key, spec);
    host.llm.embed("e", { texts: ["x"] });
    return { __llmPending: true, stash: { n: 1 } };
  }
  if (n === 1) {
    host.llm.request("a", { messages: [{ role: "user", content: "x" }], stream: { chatId: "net", name: "n" } });
    return { __llmPending: true, stash: { n: 2, status: host.net.results.json?.status } };
  }
  host.net.results.mine = req.stash.status;
  return { json: host.net.results };
}
