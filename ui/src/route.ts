import { useSyncExternalStore } from "react";

// Where in the launcher the person is. It lives in the address's hash, so that back, forward and reload work.

export type Route =
  | { screen: "home" }
  | { screen: "app"; id: string }
  | { screen: "settings"; page: "models" | "general" }
  | { screen: "activity" };

export function readRoute(hash: string): Route {
  const parts = hash.replace(/^#\/?/, "").split("/");
  if (parts[0] === "app" && parts[1]) {
    try {
      return { screen: "app", id: decodeURIComponent(parts[1]) };
    } catch {
      return { screen: "home" };
    }
  }
  if (parts[0] === "settings") return { screen: "settings", page: parts[1] === "general" ? "general" : "models" };
  if (parts[0] === "activity") return { screen: "activity" };
  return { screen: "home" };
}

export function writeRoute(route: Route): string {
  switch (route.screen) {
    case "app":
      return `#/app/${encodeURIComponent(route.id)}`;
    case "settings":
      return `#/settings/${route.page}`;
    case "activity":
      return "#/activity";
    case "home":
      return "#/";
  }
}

export function go(route: Route): void {
  location.hash = writeRoute(route);
}

/**
 * Takes the setup token out of `#setup=TOKEN` and out of the address bar and the history at once, so that it stays
 * in neither. Null when there is none.
 */
export function takeSetupToken(): string | null {
  const match = /^#setup=([A-Za-z0-9_-]{1,256})$/.exec(location.hash);
  if (location.hash.startsWith("#setup=")) history.replaceState(null, "", location.pathname + location.search);
  return match?.[1] ?? null;
}

function subscribe(changed: () => void): () => void {
  addEventListener("hashchange", changed);
  return () => removeEventListener("hashchange", changed);
}

export function useRoute(): Route {
  return readRoute(useSyncExternalStore(subscribe, () => location.hash));
}
