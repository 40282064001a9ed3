// Contract 3.3: at most three passes; a pass is pending when it says so or when a permitted request was queued; what the
// last one returns is taken as it is.
const ask = (text) => ({ messages: [{ role: "user", content: text }] });
export function handleRoute(req, host) {
  const n = (req.stash?.n ?? 0) + 1;
  switch (req.path) {
    // By value alone.
    case "/value": return { __llmPending: true, stash: { n, seen: [...(req.stash?.seen ?? []), n] }, json: { n, seen: req.stash?.seen ?? [] } };
    // Only `true` is pending.
    case "/not-true": return { __llmPending: 1, json: { n } };
    // By the queue alone: no value, and so no stash.
    case "/queue":
      if (!host.llm.results.a) host.llm.request("a", ask("one"));
      else if (!host.llm.results.b) host.llm.request("b", ask(`two ${host.llm.results.a.text}`));
      return { json: { stash: req.stash ?? null, keys: Object.keys(host.llm.results).sort(), b: host.llm.results.b?.text ?? null } };
    case "/queue-embed":
      if (!host.llm.embedResults.e) host.llm.embed("e", { texts: ["four"] });
      return { json: host.llm.embedResults.e ?? null };
    case "/queue-net":
      if (!host.net.results.n) host.net.request("n", { url: "http://WEB_HOST/json" });
      return { json: host.net.results.n?.json ?? null };
    // The last pass queues too: not done any more, and its value counts although it says it is pending.
    case "/last":
      host.llm.request(`k${n}`, ask(`k${n}`));
      return { __llmPending: true, stash: { n }, json: { n, keys: Object.keys(host.llm.results).sort() } };
    // Nothing queued, nothing said: one pass.
    case "/one": return { json: { n } };
    // Results of earlier passes stay, a key asked again is done again.
    case "/again": {
      host.llm.request("same", ask(`n${n}`));
      return { __llmPending: true, stash: { n }, json: host.llm.results.same?.text ?? null };
    }
    case "/failed":
      if (!host.llm.results.bad) {
        host.llm.request("bad", ask("fail"));
        host.llm.request("worse", { messages: "none" });
        host.llm.request("missing", { ...ask("x"), model: "nobody/has-it" });
        host.net.request("bad", { url: "http://WEB_HOST/missing" });
        host.net.request("worse", { url: "ftp://x/" });
        host.llm.embed("worse", { texts: 5 });
        return;
      }
      return { json: { llm: host.llm.results, net: host.net.results, embed: host.llm.embedResults } };
    // Store writes of a pass stay, also when a later one fails.
    case "/writes":
      host.store.put(`pass${n}`, n);
      if (n === 3) throw new Error("third");
      host.llm.request(`w${n}`, ask("w"));
      return { __llmPending: true, stash: { n } };
    case "/written": return { json: host.store.keys() };
    // A promise is awaited, and then it is two-phase all the same.
    case "/async": return (async () => {
      await null;
      if (!host.llm.results.a) { host.llm.request("a", ask("async")); return { __llmPending: true, stash: { n } }; }
      return { json: { n, text: host.llm.results.a.text } };
    })();
  }
}
