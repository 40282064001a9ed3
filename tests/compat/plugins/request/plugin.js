// Contract 3.2: what a route is asked.
export function handleRoute(req) {
  if (!req.path.startsWith("/echo") && req.path !== "/rule") return;
  const { method, path, query, body } = req;
  return { json: { method, path, query, body, stash: req.stash ?? "none" } };
}
