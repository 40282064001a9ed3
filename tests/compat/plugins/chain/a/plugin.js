// Contract 3.3: ascending `priority`, then id; later ones override earlier.
export function llmRequest(ctx) {
  return { systemPrompt: `${ctx.request.systemPrompt ?? ""}a `, reasoning: "a" === "d" ? "low" : "high", sessionId: "a" };
}
export function llmResponse(ctx) {
  return { text: `${ctx.result.text} a` };
}
