export const uiPanel = () => ({ label: 5 });
