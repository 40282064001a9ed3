export const appTools = () => ({ tools: [{ name: "theirs", description: "", parameters: {} }] });
export const handleTool = () => ({ text: "" });
