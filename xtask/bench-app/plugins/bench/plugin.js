// Asks the model of the bench, which is xtask itself. What the page measured goes the same way, as a prompt.
export async function handleRoute(req, host) {
  const body = typeof req.body === "string" ? JSON.parse(req.body) : req.body;
  if (req.method !== "POST" || req.path !== "/ask") return undefined;
  const request = { messages: [{ role: "user", content: String(body.prompt) }] };
  if (body.chatId) request.stream = { chatId: String(body.chatId), name: "bench" };
  const result = await host.llm.generate(request);
  return { json: { model: result.model, characters: result.text.length, error: result.error ?? null } };
}
