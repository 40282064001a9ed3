// Contract 3.2: `appTools` is asked each time, and may need passes of its own.
export function appTools(ctx, host) {
  if (!host.llm.results.a) {
    host.llm.request("a", { messages: [{ role: "user", content: "which" }] });
    return { __llmPending: true };
  }
  if (!host.llm.results.b) {
    host.llm.request("b", { messages: [{ role: "user", content: "tool" }] });
    return { tools: [{ name: "too_early", description: "", parameters: {} }] };
  }
  return { tools: [{ name: `made_${host.llm.results.b.text.length}`, description: "made", parameters: {} }] };
}
export const handleTool = (name) => ({ text: `made: ${name}` });
