// Contract 3.1: a plugin at the top of the workspace has no data folder.
const thrown = (what) => { try { what(); return null } catch (e) { return String(e.message ?? e) } };

export function handleRoute(req, host) {
  if (req.path !== "/rule") return;
  host.store.put("a", 1);
  return { json: { fs: thrown(() => host.fs.read("a")), write: thrown(() => host.fs.write("a", "b")), store: host.store.get("a") } };
}
export const TOOLS = [
  { name: "fixed", description: "always there", parameters: { type: "object", properties: {} } },
  { description: "without a name" },
];
export const handleTool = (name, args) => ({ text: `${name} ${JSON.stringify(args)}` });
