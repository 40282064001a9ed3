// Contract 3.1: hooks also need `llm`.
export const llmRequest = () => ({ systemPrompt: "without llm" });
