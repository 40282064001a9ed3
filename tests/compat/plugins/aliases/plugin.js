// Contract 3.1: `register:routes` and `register:tools` are the same as `routes` and `tools`; a manifest needs no version,
// and what it says beyond the known fields is left alone.
export function handleRoute(req, host) {
  if (req.path !== "/rule") return;
  return { json: { answered: true, granted: host.permissions ?? null } };
}
export function appTools() {
  return { tools: [{ name: "aliased", description: "offered under the old name", parameters: { type: "object" } }] };
}
export function handleTool(name) {
  return { text: `ran ${name}` };
}
