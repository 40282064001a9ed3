// Returns the patches it was told.
export function llmRequest(ctx, host) {
  return host.store.get("request");
}
export function llmResponse(ctx, host) {
  return host.store.get("response");
}
export function handleRoute(req, host) {
  if (req.path !== "/patch") return;
  host.store.put("request", req.body.request);
  host.store.put("response", req.body.response);
  return { json: 1 };
}
