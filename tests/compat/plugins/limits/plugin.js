// Contract 3.4: 16 model requests, 8 embeddings and 32 requests to the network in each pass.
export function handleRoute(req, host) {
  const kinds = {
    llm: (n) => host.llm.request(`k${n}`, { messages: [{ role: "user", content: `${n}` }] }),
    embed: (n) => host.llm.embed(`k${n}`, { texts: [`${n}`] }),
    net: (n) => host.net.request(`k${n}`, { url: "http://WEB_HOST/json" }),
  };
  const [, kind, count] = req.path.split("/");
  const results = { llm: host.llm.results, embed: host.llm.embedResults, net: host.net.results }[kind];
  if (!results) return;
  if (req.stash) return { json: { done: Object.keys(results).length, error: req.stash.error } };
  let error = null;
  for (let n = 0; n < Number(count); n++) {
    try { kinds[kind](n) } catch (e) { error ??= e.message }
  }
  return { __llmPending: true, stash: { error } };
}
