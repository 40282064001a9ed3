import { activityCalls } from "./api-activity";
import { mediaCalls } from "./api-media";
import { modelCalls } from "./api-models";
import { type Plugin, pluginCalls, readPlugin } from "./api-plugins";
import { spendCalls } from "./api-spend";
import type { Backend, Method } from "./backend";
import { list, num, object, str } from "./read";

// Typed calls to `/v1`. Shapes follow the contract.

export interface Me {
  username: string;
  hasPassword: boolean;
}
export type Theme = "system" | "light" | "dark";
export interface Settings {
  model: string | null;
  /** How hard models think unless an app says otherwise; null leaves it to the model. */
  reasoning: string | null;
  /** For pictures and speech; null takes the first there is. */
  imageModel: string | null;
  imageSize: string | null;
  /** The connection or speech server that the voice belongs to. */
  speechFrom: string | null;
  speechVoice: string | null;
  speechSpeed: number | null;
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
export type {
  Connection,
  ConnectionInput,
  Connections,
  ErrorInfo,
  Hello,
  KeyStore,
  Keys,
  LocalServer,
  Model,
  Models,
  Preset,
  Price,
  Providers,
  Saved,
} from "./api-models";

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

const some = (value: unknown): string | null => (typeof value === "string" && value !== "" ? value : null);

function readSettings(value: unknown): Settings {
  const v = object(value);
  return {
    model: some(v.model),
    reasoning: some(v.reasoning),
    imageModel: some(v.imageModel),
    imageSize: some(v.imageSize),
    speechFrom: some(v.speechFrom),
    speechVoice: some(v.speechVoice),
    speechSpeed: num(v.speechSpeed),
    onboarded: v.onboarded === true,
    theme: v.theme === "light" || v.theme === "dark" ? v.theme : "system",
  };
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
    ...modelCalls(call),
    ...mediaCalls(call),
    ...spendCalls(call),
    ...pluginCalls(call),
    ...activityCalls(call),
  };
}
