import { createContext, useContext, useEffect, useMemo, useRef, useState } from "react";
import type { ActivityEntry } from "../../api-activity";
import { NO_APP } from "../../api-plugins";
import { t } from "../../i18n";
import { oneLine } from "../../parts/text";
import { useEngine, useLoaded } from "../../state";
import { chainOf } from "./tree";

/** Names for the ids that the log is written in. What has no name any more keeps its id. */
export interface Names {
  app(id: string): string;
  /** A caller of a chain: `owner`, `app:chat`, `plugin:chat/notes`. `after` is who stands before it, if anyone does. */
  who(label: string, after?: string): string;
  /** A text of the log, with the names of connections in place of their ids. */
  withConnections(text: string): string;
}

interface Known {
  apps: ReadonlyMap<string, string>;
  plugins: ReadonlyMap<string, string>;
  connections: ReadonlyMap<string, string>;
}

const name = (text: string): string => oneLine(text, 60) || t.common.unnamed;

export function namesOf({ apps, plugins, connections }: Known): Names {
  const app = (id: string) => name(apps.get(id) ?? id);
  return {
    app,
    who(label, after) {
      const [kind, rest] = [label.split(":", 1)[0], label.slice(label.indexOf(":") + 1)];
      if (label === "owner") return t.activity.you;
      if (label === "command-line") return t.activity.commandLine;
      if (label === "nobody") return t.activity.nobody;
      if (label === "" || label === "chrysalis") return t.activity.chrysalis;
      if (kind === "app" && rest !== label) return app(rest);
      if (kind === "plugin" && rest !== label) {
        const [of, id] = [rest.slice(0, rest.indexOf("/")), rest.slice(rest.indexOf("/") + 1)];
        const named = name(plugins.get(rest) ?? id);
        // The app is named where nothing of it stands before, and where there is one.
        const known = of === NO_APP || after === `app:${of}` || after?.startsWith(`plugin:${of}/`);
        return known ? t.activity.plugin(named) : t.activity.pluginOf(named, app(of));
      }
      return name(label);
    },
    withConnections(text) {
      let named = text;
      for (const [id, to] of connections) if (named.includes(id)) named = named.replaceAll(id, () => name(to));
      return named;
    },
  };
}

const nothing: Names = namesOf({ apps: new Map(), plugins: new Map(), connections: new Map() });
export const NamesContext = createContext<Names>(nothing);
export const useNames = (): Names => useContext(NamesContext);

export interface NamedApp {
  id: string;
  name: string;
}

/** The names for what `entries` mention. Those of plugins are asked for when one of their app turns up. */
export function useNamesFor(entries: readonly ActivityEntry[]): { names: Names; apps: NamedApp[] } {
  const { api, listen } = useEngine();
  const launch = useLoaded((a) => a.launch(), ["apps_changed"]);
  const connections = useLoaded((a) => a.connections(), ["connections_changed"]);
  const [plugins, setPlugins] = useState<ReadonlyMap<string, string>>(new Map());
  const asked = useRef(new Set<string>());

  useEffect(() => listen((event) => event.type === "apps_changed" && asked.current.clear()), [listen]);
  useEffect(() => {
    for (const entry of entries) {
      for (const label of chainOf(entry)) {
        const app = /^plugin:([^/]+)\//.exec(label)?.[1];
        if (app === undefined || asked.current.has(app)) continue;
        asked.current.add(app);
        api.plugins(app).then(
          (found) =>
            setPlugins(
              (known) => new Map([...known, ...found.plugins.map((p) => [`${app}/${p.id}`, p.name] as const)]),
            ),
          // The app is gone; its plugins keep their ids.
          () => undefined,
        );
      }
    }
  }, [api, entries]);

  const apps = launch.value?.apps;
  const known = connections.value?.connections;
  return useMemo(() => {
    const named = (apps ?? []).map((app) => ({ id: app.id, name: app.name }));
    const names = namesOf({
      apps: new Map(named.map((app) => [app.id, app.name])),
      plugins,
      connections: new Map((known ?? []).filter((c) => c.id.length > 3).map((c) => [c.id, c.name])),
    });
    return { names, apps: named.sort((a, b) => a.name.localeCompare(b.name)) };
  }, [apps, known, plugins]);
}
