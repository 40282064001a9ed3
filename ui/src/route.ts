import { useSyncExternalStore } from "react";

// Where in the launcher the person is. It lives in the address's hash, so that back, forward and reload work.

export const SETTINGS_PAGES = ["models", "speech", "general"] as const;
export type SettingsPage = (typeof SETTINGS_PAGES)[number];

export type Route =
  | { screen: "home" }
  | { screen: "app"; id: string }
  | { screen: "settings"; page: SettingsPage }
  | { screen: "activity"; app?: string }
  | { screen: "spend" };

/** A part of the hash as text; empty when it is missing or not one that we wrote. */
function decoded(part: string | undefined): string {
  try {
    return decodeURIComponent(part ?? "");
  } catch {
    return "";
  }
}

export function readRoute(hash: string): Route {
  const parts = hash.replace(/^#\/?/, "").split("/");
  const id = decoded(parts[1]);
  if (parts[0] === "app") return id === "" ? { screen: "home" } : { screen: "app", id };
  if (parts[0] === "settings") {
    return { screen: "settings", page: SETTINGS_PAGES.find((page) => page === parts[1]) ?? "models" };
  }
  if (parts[0] === "spend") return { screen: "spend" };
  if (parts[0] === "activity") return id === "" ? { screen: "activity" } : { screen: "activity", app: id };
  return { screen: "home" };
}

export function writeRoute(route: Route): string {
  switch (route.screen) {
    case "app":
      return `#/app/${encodeURIComponent(route.id)}`;
    case "settings":
      return `#/settings/${route.page}`;
    case "activity":
      return route.app === undefined ? "#/activity" : `#/activity/${encodeURIComponent(route.app)}`;
    case "spend":
      return "#/spend";
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
