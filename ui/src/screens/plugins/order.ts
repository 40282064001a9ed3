import { type Plugin, waitsForAnswer } from "../../api-plugins";

/** What changed first, then what waits, then the others; within that as the engine lists them. */
export function inOrder(plugins: Plugin[]): Plugin[] {
  const rank = (plugin: Plugin) => (plugin.changed ? 0 : plugin.permissions.some(waitsForAnswer) ? 1 : 2);
  return [...plugins].sort((a, b) => rank(a) - rank(b));
}
