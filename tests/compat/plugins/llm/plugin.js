// Contract 4.2 and 3.4: the result of a model request, in the awaited form, and `embed`.
export async function handleRoute(req, host) {
  if (req.path !== "/rule") return;
  const ask = (text, more) => ({ messages: [{ role: "user", content: text }], ...more });
  const { llm } = host;
  const parts = llm.stream(ask("pieces abcdefg", { stream: { chatId: "llm", name: "l" } }));
  let live = "";
  for await (const part of parts) live += part.delta ?? "";
  const [one, json, failed, vectors, bare, unnamed] = await Promise.all([
    llm.generate(ask("one", { systemPrompt: "be good", presetParams: { temperature: 0.25, max_tokens: 9, params: { top_k: 3 } } })),
    llm.generate(ask("pieces {\"value\":[1]}", { schema: { type: "array" } })),
    llm.generate(ask("fail")),
    llm.embed({ texts: ["a", "bcd"] }),
    llm.generate(ask("bare", { model: "m" })),
    llm.generate(ask("unnamed", { model: null, systemPrompt: undefined, reasoning: undefined })),
  ]);
  return { json: { one, json, failed, vectors, bare, unnamed, live, whole: (await parts.result).text } };
}
