import { type Call, type Loose, list, num, object, str, texts } from "./read";

// Connections, their keys, and the models behind them. No key ever comes back from the engine.

export type KeyStore = "keychain" | "encrypted" | "file" | "run";
const STORES: readonly string[] = ["keychain", "encrypted", "file", "run"];
const store = (value: unknown): KeyStore | null =>
  typeof value === "string" && STORES.includes(value) ? (value as KeyStore) : null;

export interface Connection {
  id: string;
  name: string;
  preset: string;
  /** The wire format, by the engine's name for it. */
  api: string;
  baseUrl: string;
  /** Where a request goes in the end; empty where the address cannot be used. */
  finalUrl: string;
  /** The names of the models, or null when the server is asked for them. */
  models: string[] | null;
  hasKey: boolean;
  keyKept: KeyStore | null;
  /** Why a key that is there is not used, in the engine's words. */
  keyTrouble: string;
  local: boolean;
  /** For text completion: a format's id; "" finds it out; null when it is one of the person's own making. */
  promptFormat: string | null;
}
/** Where keys are kept. */
export interface Keys {
  /** Null when the person has to choose before a key can be saved. */
  store: KeyStore | null;
  keychain: { usable: boolean; locked: boolean; reason: string };
  encrypted: { exists: boolean; unlocked: boolean };
  /** The file that a server's configuration names; empty for none. */
  file: { path: string; reason: string };
}
export interface Connections {
  connections: Connection[];
  keys: Keys;
}
export interface Preset {
  id: string;
  name: string;
  api: string;
  baseUrl: string;
  local: boolean;
  needsKey: boolean;
  /** Where a key is made, as a text to read. */
  keyPage: string;
}
export interface Providers {
  presets: Preset[];
  apis: { id: string; name: string }[];
}
export interface LocalServer {
  name: string;
  preset: string;
  baseUrl: string;
  models: string[];
  wantsKey: boolean;
  added: boolean;
}
export const PRICES = ["input", "output", "cacheRead", "cacheWrite"] as const;
/** US dollars for a million tokens; null where it is not known. */
export type Price = Record<(typeof PRICES)[number], number | null>;
export interface Model {
  ref: string;
  label: string;
  modelId: string;
  connectionName: string;
  canned: boolean;
  contextWindow: number | null;
  contextSource: string;
  /** Null when nothing is known, which is not the same as free. */
  pricing: Price | null;
  priceSource: string;
}
export interface Models {
  models: Model[];
  errors: { connection: string; connectionName: string; error: string }[];
  default: string | null;
}
export interface ConnectionInput {
  preset?: string;
  name?: string;
  api?: string;
  baseUrl?: string;
  key?: string;
  models?: "auto" | string[];
  promptFormat?: string | null;
}
/** A saved connection, and what the engine wants said about it (where the key is kept, that one was forgotten). */
export interface Saved {
  connection: Connection;
  notice: string;
}
/** What went wrong with a model, for the screens to explain (`errorInfo` of a result). */
export interface ErrorInfo {
  kind: string;
  provider: string;
  model: string;
  status: number | null;
  retryAfterMs: number | null;
  /** The model's true context window in tokens, where the server said it. */
  window: number | null;
}
export interface Hello {
  ok: boolean;
  model: string;
  url: string;
  firstMs: number | null;
  totalMs: number | null;
  text: string;
  error: string;
  info: ErrorInfo | null;
}

function readConnection(v: Loose): Connection {
  return {
    id: str(v.id),
    name: str(v.name) || str(v.baseUrl),
    preset: str(v.preset),
    api: str(v.api),
    baseUrl: str(v.baseUrl),
    finalUrl: str(v.finalUrl),
    models: Array.isArray(v.models) ? texts(v.models) : null,
    hasKey: v.hasKey === true,
    keyKept: store(v.keyKept),
    keyTrouble: str(v.keyTrouble),
    local: v.local === true,
    promptFormat: typeof v.promptFormat === "object" && v.promptFormat !== null ? null : str(v.promptFormat),
  };
}

function readKeys(value: unknown): Keys {
  const v = object(value);
  const [keychain, encrypted, file] = [object(v.keychain), object(v.encrypted), object(v.file)];
  return {
    store: store(v.store),
    keychain: { usable: keychain.usable === true, locked: keychain.locked === true, reason: str(keychain.reason) },
    encrypted: { exists: encrypted.exists === true, unlocked: encrypted.unlocked === true },
    file: { path: str(file.path), reason: str(file.reason) },
  };
}

function readPrice(value: unknown): Price | null {
  const v = object(value);
  const price = {
    input: num(v.input),
    output: num(v.output),
    cacheRead: num(v.cacheRead),
    cacheWrite: num(v.cacheWrite),
  };
  return PRICES.some((name) => price[name] !== null) ? price : null;
}

function readModel(m: Loose): Model {
  return {
    ref: str(m.ref),
    label: str(m.label) || str(m.modelId),
    modelId: str(m.modelId),
    connectionName: str(m.connectionName),
    canned: m.canned === true,
    contextWindow: num(m.contextWindow),
    contextSource: str(m.contextSource),
    pricing: readPrice(m.pricing),
    priceSource: str(m.priceSource),
  };
}

/** `errorInfo` of a result; null when there is none. */
function readErrorInfo(value: unknown): ErrorInfo | null {
  const v = object(value);
  if (str(v.kind) === "") return null;
  return {
    kind: str(v.kind),
    provider: str(v.provider),
    model: str(v.model),
    status: num(v.status),
    retryAfterMs: num(v.retryAfterMs),
    window: num(v.window),
  };
}

export function modelCalls(call: Call) {
  const at = encodeURIComponent;
  const one = (id: string) => `/v1/settings/connections/${at(id)}`;
  const saved = async (answer: Promise<unknown>): Promise<Saved> => {
    const v = object(await answer);
    return { connection: readConnection(object(v.connection)), notice: str(v.notice) };
  };
  const allowed = (value: unknown): string[] | null => {
    const { models } = object(value);
    return Array.isArray(models) ? texts(models) : null;
  };
  return {
    async connections(): Promise<Connections> {
      const v = object(await call("GET", "/v1/settings/connections"));
      return { connections: list(v.connections).map(readConnection), keys: readKeys(v.keys) };
    },
    addConnection: (input: ConnectionInput) => saved(call("POST", "/v1/settings/connections", input)),
    changeConnection: (id: string, input: ConnectionInput) => saved(call("PATCH", one(id), input)),
    async removeConnection(id: string): Promise<void> {
      await call("DELETE", one(id));
    },
    async forgetKey(id: string): Promise<void> {
      await call("DELETE", `${one(id)}/key`);
    },
    async sayHello(id: string, model?: string): Promise<Hello> {
      const v = object(await call("POST", `${one(id)}/test`, model ? { model } : {}));
      return {
        ok: v.ok === true,
        model: str(v.model),
        url: str(v.url),
        firstMs: num(v.firstMs),
        totalMs: num(v.totalMs),
        text: str(v.text),
        error: str(v.error),
        info: readErrorInfo(v.errorInfo),
      };
    },
    async providers(): Promise<Providers> {
      const v = object(await call("GET", "/v1/settings/providers"));
      return {
        presets: list(v.presets).map((p) => ({
          id: str(p.id),
          name: str(p.name) || str(p.id),
          api: str(p.api),
          baseUrl: str(p.baseUrl),
          local: p.local === true || p.group === "local",
          needsKey: p.needsKey === true,
          keyPage: str(p.keyPage),
        })),
        apis: list(v.apis).map((a) => ({ id: str(a.id), name: str(a.name) || str(a.id) })),
      };
    },
    async localServers(signal?: AbortSignal): Promise<LocalServer[]> {
      const v = object(await call("GET", "/v1/settings/local-servers", undefined, signal));
      return list(v.servers).map((s) => ({
        name: str(s.name),
        preset: str(s.preset),
        baseUrl: str(s.baseUrl),
        models: Array.isArray(s.models) ? s.models.map((m) => (typeof m === "string" ? m : str(object(m).id))) : [],
        wantsKey: s.wantsKey === true,
        added: s.added === true,
      }));
    },
    async promptFormats(): Promise<{ id: string; name: string }[]> {
      const v = object(await call("GET", "/v1/models/prompt-formats"));
      return list(v.formats).map((f) => ({ id: str(f.id), name: str(f.name) || str(f.id) }));
    },

    async keys(): Promise<Keys> {
      return readKeys(await call("GET", "/v1/settings/keys"));
    },
    /** Chooses where keys are kept; those that are there move. Resolves to what the engine wants said about it. */
    async chooseStore(to: KeyStore, passphrase?: string, discard?: boolean): Promise<string> {
      const body = { store: to, ...(passphrase ? { passphrase } : {}), ...(discard ? { discard } : {}) };
      return str(object(await call("PUT", "/v1/settings/keys", body)).notice);
    },
    async unlockKeys(passphrase?: string): Promise<void> {
      await call("POST", "/v1/settings/keys/unlock", passphrase ? { passphrase } : {});
    },
    async lockKeys(): Promise<void> {
      await call("POST", "/v1/settings/keys/lock");
    },

    /** With `fresh` the servers are asked again. */
    async models(signal?: AbortSignal, fresh = false): Promise<Models> {
      const v = object(await call("GET", fresh ? "/v1/models?fresh=1" : "/v1/models", undefined, signal));
      return {
        models: list(v.models).map(readModel),
        errors: list(v.errors).map((e) => ({
          connection: str(e.connection),
          connectionName: str(e.connectionName),
          error: str(e.error),
        })),
        default: typeof v.default === "string" && v.default !== "" ? v.default : null,
      };
    },
    async setContext(ref: string, contextWindow: number | null): Promise<void> {
      await call("PUT", "/v1/models/context", { ref, contextWindow });
    },
    /** Null goes back to what the server or the table says. */
    async setPrice(ref: string, pricing: Partial<Price> | null): Promise<void> {
      await call("PUT", "/v1/models/pricing", { ref, pricing });
    },

    /** The connections and models that an app may use; null for all. */
    async appModels(app: string): Promise<string[] | null> {
      return allowed(await call("GET", `/v1/settings/app-models/${at(app)}`));
    },
    async setAppModels(app: string, models: string[] | null): Promise<string[] | null> {
      return allowed(await call("PUT", `/v1/settings/app-models/${at(app)}`, { models: models ?? "all" }));
    },
  };
}
