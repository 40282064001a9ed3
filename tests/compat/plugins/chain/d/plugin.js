// Contract 3.3: ascending `priority`, then id; later ones override earlier.
export function llmRequest(ctx) {
  return { systemPrompt: `${ctx.request.systemPrompt ?? ""}d `, reasoning: "d" === "d" ? "low" : "high", sessionId: "d" };
}
export function llmResponse(ctx) {
  return { text: `${ctx.result.text} d` };
}
