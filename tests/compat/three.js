
// Put behind a rule's plugin, whose own route is `rule` then: two passes with embeddings, the network, and models that
// stream, and the rule itself in the third.
export function handleRoute(req, host) {
  const ask = (text) => ({ messages: [{ role: "user", content: text }], stream: { chatId: "three", name: text } });
  const { results, embedResults } = host.llm;
  if (req.stash === undefined) {
    host.llm.request("first", ask("one"));
    host.net.request("page", { url: `${req.body.net}/json` });
    host.llm.embed("vectors", { texts: ["one", "three"] });
    return { __llmPending: true, stash: { passes: 1 } };
  }
  if (req.stash.passes === 1) {
    const first = results.first;
    first.mine = true;
    delete first.usage;
    host.llm.request("second", ask(`two after ${first.text}`));
    const page = host.net.results.page.json;
    return { __llmPending: true, stash: { passes: 2, first, page, vectors: embedResults.vectors } };
  }
  const seen = { ...req.stash, passes: 3, second: results.second.text, still: results.first.text };
  delete req.stash;
  const answered = (answer) => ({ json: { rule: answer ?? null, seen } });
  const answer = rule(req, host);
  return answer instanceof Promise ? answer.then(answered) : answered(answer);
}
