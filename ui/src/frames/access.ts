import table from "./access.json";

// The shell's own copy of what an app's page may use, printed from the engine's table (`cargo xtask docs --write`). The
// engine checks for itself; with two checks a mistake in one is not yet a way in.

/** Whether `app`'s page may send `method` to `path` (as in an address, without a query). */
export function pageMayUse(app: string, method: string, path: string): boolean {
  let parts: string[];
  try {
    parts = path.split("/").map(decodeURIComponent);
  } catch {
    return false;
  }
  return table.routes.some((route) => {
    const wanted = route.method === "*" || route.method === method || (route.method === "GET" && method === "HEAD");
    return wanted && fits(route.pattern.split("/"), parts, app);
  });
}

function fits(pattern: string[], parts: string[], app: string): boolean {
  for (const [at, part] of pattern.entries()) {
    const given = parts[at];
    if (given === undefined) return false;
    if (part === "{*rest}") return parts.length > at && !isManagement(parts.slice(at));
    if (part === "{app}" ? given !== app : !part.startsWith("{") && given !== part) return false;
    if (part.startsWith("{") && given === "") return false;
  }
  return parts.length === pattern.length;
}

/** A reserved name alone, or anything below one that is reserved as a whole. */
function isManagement(rest: string[]): boolean {
  const names = rest
    .join("/")
    .replace(/^\/+|\/+$/g, "")
    .split("/");
  const head = names[0] ?? "";
  return table.managementHeads.includes(head) && (names.length === 1 || table.managementTrees.includes(head));
}
