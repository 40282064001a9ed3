// Contract 3.1: a plugin at the top of the workspace belongs to no app.
export const llmRequest = (ctx) => ({ systemPrompt: `top saw ${ctx.plugin}` });
