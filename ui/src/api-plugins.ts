import { type Call, type Loose, list, num, object, str, texts } from "./read";

// Plugins: what they ask for, what of it is allowed, what they used, and what a person can do about it.

export type PermissionState = "granted" | "asked" | "denied" | "stale";
export interface Permission {
  capability: string;
  sentence: string;
  /** Why, in the author's words. */
  reason: string;
  /** Where it may reach, as the manifest lists it; empty for what is not about hosts. */
  hosts: string[];
  /** Bytes of store, when it asks for another size than usual. */
  quota: number | null;
  state: PermissionState;
  /** Why `config.toml` does not allow it, whatever is granted here; empty when it does. */
  policy: string;
  /** Reaches this machine or the network around it. */
  local: boolean;
}
export interface PluginError {
  at: number;
  target: string;
  detail: string;
}
export interface PluginSecret {
  name: string;
  /** The only origin that it is sent to. */
  origin: string;
  reason: string;
  saved: boolean;
  /** It was given, but its value is gone. */
  lost: boolean;
}
export interface Plugin {
  id: string;
  globalId: string;
  name: string;
  version: string;
  description: string;
  /** Of all files that it loads; what is allowed is allowed for just these. */
  hash: string;
  enabled: boolean;
  error: string;
  permissions: Permission[];
  lastErrors: PluginError[];
  /** Its files are not those that were allowed. */
  changed: boolean;
  secrets: PluginSecret[];
}
export interface Amount {
  used: number;
  limit: number | null;
}
/** What is counted against budgets, in the order in which it is shown. Disk is what is kept, the others are per day. */
export const BUDGETS = ["modelCalls", "tokens", "networkBytes", "diskBytes"] as const;
export type Budget = (typeof BUDGETS)[number];
export interface Usage {
  /** The day that is counted, `2026-11-30`, in UTC. */
  day: string;
  amounts: Record<Budget, Amount>;
}
export interface AppPlugins {
  plugins: Plugin[];
  usage: Usage | null;
}
export interface DiffLine {
  /** Kept, added or removed; a gap stands for unchanged lines that were left out. */
  kind: " " | "+" | "-" | "gap";
  text: string;
}
export interface DiffFile {
  path: string;
  lines: DiffLine[];
  /** There is more than was compared. */
  cut: boolean;
}
export interface Difference {
  /** Hash of what was allowed; empty when nothing of it was kept. */
  before: string;
  after: string;
  files: DiffFile[];
}

/** The app id under which plugins stand that belong to no app. */
export const NO_APP = "_";

/** Whether a person still has to say something about it. */
export const waitsForAnswer = (asked: Permission): boolean =>
  asked.policy === "" && (asked.state === "asked" || asked.state === "stale");

/** How the engine writes the size of a store among what a permission is limited to. */
const QUOTA = /^quota:(\d{1,15})$/;

function permission(value: Loose): Permission {
  const capability = str(value.capability);
  const { state } = value;
  const scope = texts(value.hosts);
  const isQuota = (entry: string) => capability === "store" && QUOTA.test(entry);
  const quota = scope.find(isQuota);
  return {
    capability,
    sentence: str(value.sentence) || capability,
    reason: str(value.reason),
    hosts: scope.filter((entry) => !isQuota(entry)),
    quota: quota === undefined ? null : Number(QUOTA.exec(quota)?.[1]),
    state: state === "granted" || state === "stale" || state === "denied" ? state : "asked",
    policy: str(value.policy),
    local: value.local === true,
  };
}

export function readPlugin(value: Loose): Plugin {
  return {
    id: str(value.id),
    globalId: str(value.globalId),
    name: str(value.name) || str(value.id),
    version: str(value.version),
    description: str(value.description),
    hash: str(value.hash),
    enabled: value.enabled !== false,
    error: str(value.error),
    permissions: list(value.permissions).map(permission),
    lastErrors: list(value.lastErrors).map((e) => ({
      at: num(e.at) ?? 0,
      target: str(e.target),
      detail: str(e.detail),
    })),
    changed: value.changed === true,
    secrets: list(value.secrets).map((s) => ({
      name: str(s.name),
      origin: str(s.origin),
      reason: str(s.reason),
      // Engines before this field call a lost one saved.
      saved: s.saved === true && s.lost !== true,
      lost: s.lost === true,
    })),
  };
}

function amount(value: unknown): Amount {
  const v = object(value);
  return { used: num(v.used) ?? 0, limit: num(v.limit) };
}

function usage(value: unknown): Usage | null {
  if (typeof value !== "object" || value === null) return null;
  const v = object(value);
  return {
    day: str(v.day),
    amounts: {
      modelCalls: amount(v.modelCalls),
      tokens: amount(v.tokens),
      networkBytes: amount(v.networkBytes),
      diskBytes: amount(v.diskBytes),
    },
  };
}

function diffFile(value: Loose): DiffFile {
  const lines = list(value.lines).map(({ kind, text }): DiffLine => {
    return { kind: kind === "+" || kind === "-" ? kind : kind === "…" ? "gap" : " ", text: str(text) };
  });
  return { path: str(value.path), lines, cut: value.cut === true };
}

export function pluginCalls(call: Call) {
  const at = encodeURIComponent;
  const one = (app: string, id: string) => `/v1/apps/${at(app)}/plugins/${at(id)}`;
  return {
    async plugins(app: string): Promise<AppPlugins> {
      const v = object(await call("GET", `/v1/apps/${at(app)}/plugins`));
      return { plugins: list(v.plugins).map(readPlugin), usage: usage(v.usage) };
    },
    /** Allows `capabilities` for the hash of just the files that were shown, and refuses the others. 409: they changed. */
    async approve(globalId: string, head: string, capabilities: string[]): Promise<void> {
      await call("POST", `/v1/plugins/${at(globalId)}/approve`, { head, capabilities });
    },
    /** Takes one permission back, or all of them. */
    async revoke(globalId: string, capability?: string): Promise<void> {
      await call("POST", `/v1/plugins/${at(globalId)}/revoke`, capability === undefined ? {} : { capability });
    },
    async enable(app: string, id: string, on: boolean): Promise<void> {
      await call("POST", `${one(app, id)}/${on ? "enable" : "disable"}`);
    },
    async removePlugin(app: string, id: string): Promise<void> {
      await call("DELETE", one(app, id));
    },
    async difference(app: string, id: string): Promise<Difference> {
      const v = object(await call("GET", `${one(app, id)}/difference`));
      return { before: str(v.before), after: str(v.after), files: list(v.files).map(diffFile) };
    },
    /** Keeps a secret for one plugin and one origin, both as they were shown. It cannot be read back. */
    async saveSecret(globalId: string, name: string, value: string, origin: string): Promise<void> {
      await call("PUT", `/v1/plugins/${at(globalId)}/secrets/${at(name)}`, { value, origin });
    },
    async forgetSecret(globalId: string, name: string): Promise<void> {
      await call("DELETE", `/v1/plugins/${at(globalId)}/secrets/${at(name)}`);
    },
    async setBudget(app: string, budget: Record<Budget, number | null>): Promise<void> {
      await call("PUT", `/v1/budgets/${at(app)}`, budget);
    },
  };
}
