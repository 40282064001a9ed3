// Which apps were opened last, in this launcher. Only for the order of the grid; losing it loses nothing.

const KEPT = "chrysalis.recent";
const MOST = 100;

export function recentApps(): string[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(KEPT) ?? "[]");
    return Array.isArray(kept) ? kept.filter((id) => typeof id === "string").slice(0, MOST) : [];
  } catch {
    return [];
  }
}

export function noteOpened(id: string): void {
  try {
    localStorage.setItem(KEPT, JSON.stringify([id, ...recentApps().filter((other) => other !== id)].slice(0, MOST)));
  } catch {
    // Not remembered, then.
  }
}

/** Recent first, the others by name. */
export function byRecent<T extends { id: string; name: string }>(apps: T[], recent: string[]): T[] {
  const rank = new Map(recent.map((id, at) => [id, at]));
  return [...apps].sort(
    (a, b) => (rank.get(a.id) ?? Infinity) - (rank.get(b.id) ?? Infinity) || a.name.localeCompare(b.name) || 0,
  );
}
