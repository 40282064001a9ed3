// Contract 3.3: ascending `priority`, then id; later ones override earlier.
export function llmRequest(ctx) {
  return { systemPrompt: `${ctx.request.systemPrompt ?? ""}c `, reasoning: "c" === "d" ? "low" : "high", sessionId: "c" };
}
export function llmResponse(ctx) {
  return { text: `${ctx.result.text} c` };
}
