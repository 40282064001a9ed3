// Contract 3.2: `appTools` and `handleTool`; 3.3: a tool's passes.
const names = ["plain", "words", "wrong", "number", "nothing", "throws", "queues", "three", "asks", "greedy"];
export function appTools(ctx, host) {
  const tool = (name) => ({
    name,
    description: `the tool ${name}`,
    parameters: { type: "object", properties: { a: { type: "string" } } },
  });
  return { tools: [...names.map(tool), { description: "has no name" }, 5] };
}
const ask = (text, more) => ({ messages: [{ role: "user", content: text }], ...more });
export function handleTool(name, args, host) {
  const { results, embedResults } = host.llm;
  switch (name) {
    case "plain": return { text: `got ${JSON.stringify(args)}` };
    case "words": return Promise.resolve({ text: "later" });
    case "wrong": return { text: "it is wrong", isError: true };
    case "number": return { text: "7", isError: false, more: "ignored" };
    case "nothing": return { text: "" };
    case "throws": throw new Error("the tool broke");
    // Queues without saying so.
    case "queues":
      if (!results.a) host.llm.request("a", ask("from a tool"));
      return { text: results.a ? `then ${results.a.text}` : "not yet" };
    case "three":
      if (!results.a) {
        host.llm.request("a", ask("a"));
        host.net.request("n", { url: "http://WEB_HOST/json" });
        host.llm.embed("e", { texts: ["tool"] });
        return { __llmPending: true, text: "not yet" };
      }
      if (!results.b) {
        host.llm.request("b", ask(`b ${results.a.text}`));
        return { text: "nor now" };
      }
      host.llm.request("c", ask("not done"));
      return { text: [results.b.text, JSON.stringify(embedResults.e), host.net.results.n.json.web, args.a].join(" ") };
    // Bare: no tools, hooks or streaming.
    case "asks":
      if (!results.bare) {
        const tools = [{ name: "mine", description: "", parameters: {} }];
        host.llm.request("bare", ask("tools", { tools, wantsTools: true, stream: { chatId: "bare", name: "x" } }));
        return { __llmPending: true };
      }
      return { text: `[${results.bare.text}]` };
    case "greedy": return host.llm.generate(ask("tools", { wantsTools: true })).then((answer) => ({ text: `<${answer.text}>` }));
  }
}
