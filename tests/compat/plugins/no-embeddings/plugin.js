// Contract 4.4: without a connection that has a key, there are no embeddings: null.
export function handleRoute(req, host) {
  if (req.path !== "/rule") return;
  if (!("e" in host.llm.embedResults)) return void host.llm.embed("e", { texts: ["x"] });
  return { json: { e: host.llm.embedResults.e } };
}
