export function uiPanel() {
  throw new Error("no panel");
}
