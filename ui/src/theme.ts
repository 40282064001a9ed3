import type { Theme } from "./api";

const KEPT = "chrysalis.theme";

/** Shows the theme, and remembers it so that the next start paints in it before the engine has answered. */
export function showTheme(theme: Theme): void {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem(KEPT, theme);
  } catch {
    // Without storage the theme comes with the settings.
  }
}

export function showKeptTheme(): void {
  try {
    const kept = localStorage.getItem(KEPT);
    if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
  } catch {
    // As above.
  }
}
