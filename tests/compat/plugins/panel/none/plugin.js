export const uiPanel = () => null;
