// Contract 3.3: the object that a hook returns is the ctx of its next pass. Its own requests have own and sibling tools, and
// never meet hooks.
const ask = (text, more) => ({ messages: [{ role: "user", content: text }], ...more });
export function llmRequest(ctx, host) {
  const { results, embedResults } = host.llm;
  if (!ctx.pass) {
    host.llm.embed("e", { texts: ["hook"] });
    host.net.request("n", { url: "http://WEB_HOST/json" });
    const tools = [{ name: "mine", description: "", parameters: {} }];
    host.llm.request("tools", ask("tools", { tools, wantsTools: true, stream: { chatId: "hook", name: "h" } }));
    return { pass: 2, kept: ctx.request.messages[0].content, plugin: ctx.plugin };
  }
  if (ctx.pass === 2) {
    host.llm.request("again", ask(`again ${results.tools.text}`));
    return { ...ctx, pass: 3, gone: "request" in ctx };
  }
  const seen = [ctx.kept, ctx.plugin, ctx.gone, results.tools.text, results.again.text, embedResults.e, host.net.results.n.json];
  return { systemPrompt: JSON.stringify(seen), pass: 4 };
}
export function llmResponse(ctx, host) {
  const { results } = host.llm;
  if (!results.a) {
    host.llm.request("a", ask("after"));
    return { ...ctx, pass: 2 };
  }
  if (!results.b) {
    host.llm.request("b", ask(`then ${results.a.text}`));
    return { ...ctx, pass: ctx.pass + 1 };
  }
  return { text: `${ctx.result.text} | ${results.b.text} | ${ctx.pass}` };
}
export const handleTool = () => ({ text: "" });
