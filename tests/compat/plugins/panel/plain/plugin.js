export const uiPanel = async () => ({ label: "Plain" });
