// Notes what a hook sees and changes nothing.
export function llmRequest(ctx, host) {
  host.store.put("request", ctx);
}
export function llmResponse(ctx, host) {
  host.store.put("response", ctx);
}
export function handleRoute(req, host) {
  if (req.path === "/watched") return { json: { request: host.store.get("request"), response: host.store.get("response") } };
}
