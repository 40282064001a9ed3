// Contract 3.3: ascending `priority`, then id; later ones override earlier.
export function llmRequest(ctx) {
  return { systemPrompt: `${ctx.request.systemPrompt ?? ""}e `, reasoning: "e" === "d" ? "low" : "high", sessionId: "e" };
}
export function llmResponse(ctx) {
  return { text: `${ctx.result.text} e` };
}
