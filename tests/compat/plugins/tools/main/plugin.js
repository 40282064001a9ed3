// Contract 3.4: `wantsTools` adds the tools that the app's other plugins offer.
const ask = (text, more) => ({ messages: [{ role: "user", content: text }], ...more });
export async function handleRoute(req, host) {
  const { text, more } = req.body ?? {};
  // The awaited form.
  if (req.path === "/ask") return { json: await host.llm.generate(ask(text, more)) };
  // Three passes with all kinds of requests; the tools are used in the second.
  if (req.path === "/three") {
    const n = req.stash?.n ?? 0;
    if (n === 0) {
      host.llm.embed("e", { texts: ["x"] });
      host.net.request("n", { url: "http://WEB_HOST/json" });
      host.llm.request("before", ask("before", { stream: { chatId: "before", name: "b" } }));
      return { __llmPending: true, stash: { n: 1 } };
    }
    if (n === 1) {
      host.llm.request("tools", ask(text, { ...more, stream: { chatId: "tools", name: "t" } }));
      return { __llmPending: true, stash: { n: 2, before: host.llm.results.before.text } };
    }
    if (req.stash.before !== "said: before" || !host.llm.embedResults.e || !host.net.results.n.ok) throw new Error("lost");
    return { json: host.llm.results.tools };
  }
}
