// Contract 3.3: ascending `priority`, then id; later ones override earlier.
export function llmRequest(ctx) {
  return { systemPrompt: `${ctx.request.systemPrompt ?? ""}b `, reasoning: "b" === "d" ? "low" : "high", sessionId: "b" };
}
export function llmResponse(ctx) {
  return { text: `${ctx.result.text} b` };
}
