// Contract 3.4: a request may bring up to 16 tools of its own; `handleTool` of the same plugin runs them.
const tool = (name) => ({ name, description: "mine", parameters: { type: "object", properties: {} } });
export function handleRoute(req, host) {
  if (req.path !== "/rule") return;
  if (!host.llm.results.own) {
    const tools = [tool("mine"), tool("second")];
    host.llm.request("own", { messages: [{ role: "user", content: "use mine {\"x\":1}" }], tools });
    host.llm.request("list", { messages: [{ role: "user", content: "tools" }], tools });
    host.llm.request("none", { messages: [{ role: "user", content: "tools" }] });
    const many = Array.from({ length: 16 }, (_, n) => tool(`t${n}`));
    host.llm.request("many", { messages: [{ role: "user", content: "tools" }], tools: many });
    return { __llmPending: true };
  }
  const { own, list, none, many } = host.llm.results;
  return { json: { own: own.text, trace: own.toolTrace, list: list.text, none: none.text, many: many.text.split(",").length } };
}
export function handleTool(name, args, host) {
  host.store.put("ran", name);
  return { text: `${name} with ${JSON.stringify(args)}` };
}
