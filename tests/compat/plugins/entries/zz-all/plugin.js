// Every entry point that a permission stands before; each leaves a mark when its code runs.
const mark = (host, name) => host.store.put(name, true);
export function handleRoute(req, host) {
  if (req.path === "/ran") {
    const ran = host.store.keys();
    for (const key of ran) host.store.delete(key);
    return { json: ran };
  }
  if (req.path === "/route") return { json: "answered" };
}
export function appTools(ctx, host) {
  mark(host, "appTools");
  return { tools: [{ name: "offered", description: "", parameters: {} }] };
}
export function handleTool(name, args, host) {
  mark(host, "handleTool");
  return { text: "ran" };
}
export function llmRequest(ctx, host) {
  mark(host, "llmRequest");
  return { systemPrompt: "hooked" };
}
export function llmResponse(ctx, host) {
  mark(host, "llmResponse");
  return { text: `${ctx.result.text} hooked` };
}
