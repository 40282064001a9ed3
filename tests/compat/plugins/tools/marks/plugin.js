// Sees every request that meets hooks.
export const llmRequest = (ctx) => ({ systemPrompt: `${ctx.request.systemPrompt ?? ""}hooked` });
