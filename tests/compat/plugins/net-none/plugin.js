// Contract 3.1: no host listed, no network.
export function handleRoute(req, host) {
  if (req.path !== "/rule" || !host.net) return { json: { dropped: !host.net } };
  if (!host.net.results.a) {
    for (const key of ["a", "b"]) host.net.request(key, { url: key === "a" ? req.body.net : "https://example.com/" });
    return { __llmPending: true };
  }
  return { json: host.net.results };
}
