import { activityCalls } from "./api-activity";
import { type Plugin, pluginCalls, readPlugin } from "./api-plugins";
import type { Backend, Method } from "./backend";
import { type Loose, list, num, object, str } from "./read";

// Typed calls to `/v1`. Shapes follow the contract.

export interface Me {
  username: string;
  hasPassword: boolean;
}
export type Theme = "system" | "light" | "dark";
export interface Settings {
  model: string | null;
  onboarded: boolean;
  theme: Theme;
}
export interface AppCard {
  id: string;
  name: string;
  author: string;
  description: string;
  version: string;
  official: boolean;
  repository: string;
  plugins: number;
  waiting: number;
}
export interface BrokenApp {
  id: string;
  error: string;
}
export interface BoxApp {
  id: string;
  name: string;
  description: string;
  added: boolean;
}
export interface Launch {
  apps: AppCard[];
  broken: BrokenApp[];
  box: BoxApp[];
  version: string;
  repository: string;
}
export interface Connection {
  id: string;
  name: string;
  api: string;
  baseUrl: string;
  hasKey: boolean;
  keyKept: "keychain" | "run" | null;
  local: boolean;
}
export interface Connections {
  connections: Connection[];
  keychain: { usable: boolean; reason: string };
}
export interface Preset {
  id: string;
  name: string;
  baseUrl: string;
  local: boolean;
}
export interface LocalServer {
  name: string;
  baseUrl: string;
  models: string[];
}
export interface Model {
  ref: string;
  label: string;
  modelId: string;
  connectionName: string;
  canned: boolean;
}
export interface Models {
  models: Model[];
  errors: { connection: string; connectionName: string; error: string }[];
  default: string | null;
}
export interface Preview {
  id: string;
  name: string;
  version: string;
  author: string;
  description: string;
  head: string;
  installed: boolean;
  plugins: Plugin[];
}
/** A refusal or failure as the person gets to see it. `raw` is the whole cause, for copying. */
export class CallError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly code: string | null,
    readonly raw: string,
  ) {
    super(message);
    this.name = "CallError";
  }
}

function readSettings(value: unknown): Settings {
  const v = object(value);
  return {
    model: typeof v.model === "string" && v.model !== "" ? v.model : null,
    onboarded: v.onboarded === true,
    theme: v.theme === "light" || v.theme === "dark" ? v.theme : "system",
  };
}

function readConnection(v: Loose): Connection {
  return {
    id: str(v.id),
    name: str(v.name) || str(v.baseUrl),
    api: str(v.api),
    baseUrl: str(v.baseUrl),
    hasKey: v.hasKey === true,
    keyKept: v.keyKept === "keychain" || v.keyKept === "run" ? v.keyKept : null,
    local: v.local === true,
  };
}

export interface ConnectionInput {
  name?: string;
  baseUrl?: string;
  key?: string;
}
/** A saved connection, and what the engine wants said about it (where the key is kept, that one was forgotten). */
export interface Saved {
  connection: Connection;
  notice: string;
}

export type Api = ReturnType<typeof api>;

export function api(backend: Backend) {
  async function call(method: Method, path: string, body?: unknown, signal?: AbortSignal): Promise<unknown> {
    let answer: Response;
    let text: string;
    try {
      const options =
        body === undefined ? {} : { body: JSON.stringify(body), headers: { "content-type": "application/json" } };
      answer = await backend.call(method, path, signal ? { ...options, signal } : options);
      text = await answer.text();
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") throw error;
      throw new CallError("", 0, "unreachable", `${method} ${path}: ${String(error)}`);
    }
    let value: unknown;
    let isJson = text === "";
    try {
      if (!isJson) value = JSON.parse(text);
      isJson = true;
    } catch {
      // Reported below with what came instead.
    }
    if (answer.ok && isJson) return value;
    const said = object(value);
    const raw = `${method} ${path} → ${answer.status}\n${text.slice(0, 4000)}`;
    throw new CallError(str(said.error), answer.status, typeof said.code === "string" ? said.code : null, raw);
  }
  const at = encodeURIComponent;
  const saved = async (answer: Promise<unknown>): Promise<Saved> => {
    const v = object(await answer);
    return { connection: readConnection(object(v.connection)), notice: str(v.notice) };
  };

  return {
    async users(): Promise<{ users: string[]; setup: boolean }> {
      const v = object(await call("GET", "/v1/auth/users"));
      const users = Array.isArray(v.users)
        ? v.users.map((u) => (typeof u === "string" ? u : str(object(u).username)))
        : [];
      return { users, setup: v.setup === true };
    },
    async setup(token: string, username: string, password: string): Promise<void> {
      await call("POST", "/v1/auth/setup", { token, username, password });
    },
    async login(username: string, password: string): Promise<void> {
      await call("POST", "/v1/auth/login", { username, password });
    },
    async logout(): Promise<void> {
      await call("POST", "/v1/auth/logout");
    },
    async me(): Promise<Me> {
      const v = object(await call("GET", "/v1/me"));
      return { username: str(v.username), hasPassword: v.hasPassword === true };
    },
    async rename(username: string, password?: string): Promise<void> {
      await call("POST", "/v1/auth/rename", password ? { username, password } : { username });
    },
    async password(current: string, next: string): Promise<void> {
      await call("PUT", "/v1/auth/password", { current, next });
    },
    async settings(): Promise<Settings> {
      return readSettings(await call("GET", "/v1/settings"));
    },
    async change(settings: Partial<Settings>): Promise<Settings> {
      return readSettings(await call("PUT", "/v1/settings", settings));
    },
    async launch(): Promise<Launch> {
      const v = object(await call("GET", "/v1/launch"));
      const engine = object(v.engine);
      return {
        apps: list(v.apps).map((a) => ({
          id: str(a.id),
          name: str(a.name) || str(a.id),
          author: str(a.author),
          description: str(a.description),
          version: str(a.version),
          official: a.official === true,
          repository: str(a.repository),
          plugins: num(a.plugins) ?? 0,
          waiting: num(a.waiting) ?? 0,
        })),
        broken: list(v.broken).map((b) => ({ id: str(b.id), error: str(b.error) })),
        box: list(v.box).map((b) => ({
          id: str(b.id),
          name: str(b.name) || str(b.id),
          description: str(b.description),
          added: b.added === true,
        })),
        version: str(engine.version),
        repository: str(engine.repository),
      };
    },
    async connections(): Promise<Connections> {
      const v = object(await call("GET", "/v1/settings/connections"));
      const keychain = object(v.keychain);
      return {
        connections: list(v.connections).map(readConnection),
        keychain: { usable: keychain.usable === true, reason: str(keychain.reason) },
      };
    },
    addConnection: (input: ConnectionInput) => saved(call("POST", "/v1/settings/connections", input)),
    changeConnection: (id: string, input: ConnectionInput) =>
      saved(call("PATCH", `/v1/settings/connections/${at(id)}`, input)),
    async removeConnection(id: string): Promise<void> {
      await call("DELETE", `/v1/settings/connections/${at(id)}`);
    },
    setKey: (id: string, key: string) => saved(call("PUT", `/v1/settings/connections/${at(id)}/key`, { key })),
    async forgetKey(id: string): Promise<void> {
      await call("DELETE", `/v1/settings/connections/${at(id)}/key`);
    },
    async presets(): Promise<Preset[]> {
      const v = object(await call("GET", "/v1/settings/providers"));
      return list(v.presets).map((p) => ({
        id: str(p.id),
        name: str(p.name),
        baseUrl: str(p.baseUrl),
        local: p.local === true,
      }));
    },
    async localServers(signal?: AbortSignal): Promise<LocalServer[]> {
      const v = object(await call("GET", "/v1/settings/local-servers", undefined, signal));
      return list(v.servers).map((s) => ({
        name: str(s.name),
        baseUrl: str(s.baseUrl),
        models: Array.isArray(s.models) ? s.models.map((m) => (typeof m === "string" ? m : str(object(m).id))) : [],
      }));
    },
    async models(signal?: AbortSignal): Promise<Models> {
      const v = object(await call("GET", "/v1/models", undefined, signal));
      return {
        models: list(v.models).map((m) => ({
          ref: str(m.ref),
          label: str(m.label) || str(m.modelId),
          modelId: str(m.modelId),
          connectionName: str(m.connectionName),
          canned: m.canned === true,
        })),
        errors: list(v.errors).map((e) => ({
          connection: str(e.connection),
          connectionName: str(e.connectionName),
          error: str(e.error),
        })),
        default: typeof v.default === "string" && v.default !== "" ? v.default : null,
      };
    },
    async preview(box: string): Promise<Preview> {
      const v = object(await call("POST", "/v1/apps/import", { box }));
      return {
        id: str(v.id),
        name: str(v.name) || str(v.id),
        version: str(v.version),
        author: str(v.author),
        description: str(v.description),
        head: str(v.head),
        installed: v.installed === true,
        plugins: list(v.plugins).map(readPlugin),
      };
    },
    /** Adds exactly the files that the preview showed (`head`); a 409 means that they changed since. */
    async addApp(box: string, head: string, grant: boolean): Promise<string> {
      return str(object(await call("POST", "/v1/apps/import", { box, confirm: true, head, grant })).id);
    },
    async removeApp(id: string): Promise<void> {
      await call("DELETE", `/v1/apps/${at(id)}`);
    },
    ...pluginCalls(call),
    ...activityCalls(call),
  };
}
