import { type Call, type Loose, list, num, object, str } from "./read";

// The activity log: every outgoing connection, refusal, model call and failure, with who caused it.

export type ActivityKind = "connection" | "refusal" | "model" | "tool" | "error" | "stop";
export interface ActivityEntry {
  id: string;
  /** Milliseconds since 1970. */
  at: number;
  kind: string;
  /** Who did it: the last of the chain. */
  caller: string;
  /** Through whom it came, outermost first: `owner > app:chat > plugin:chat/chat`. */
  chain: string;
  /** The same for all that came of one call. */
  trace: string;
  app: string;
  target: string;
  outcome: string;
  status: number | null;
  bytesSent: number | null;
  bytesReceived: number | null;
  ms: number | null;
  detail: string;
  model: string;
  tokensIn: number | null;
  tokensOut: number | null;
  /** In US dollars, where the server's prices are known. */
  cost: number | null;
}
export interface ActivityFilter {
  app?: string;
  kind?: string;
  outcome?: string;
  trace?: string;
}

function readEntry(v: Loose): ActivityEntry {
  return {
    id: str(v.id),
    at: num(v.at) ?? 0,
    kind: str(v.kind),
    caller: str(v.caller),
    chain: str(v.chain),
    trace: str(v.trace),
    app: str(v.app),
    target: str(v.target),
    outcome: str(v.outcome),
    status: num(v.status),
    bytesSent: num(v.bytesSent),
    bytesReceived: num(v.bytesReceived),
    ms: num(v.ms),
    detail: str(v.detail),
    model: str(v.model),
    tokensIn: num(v.tokensIn),
    tokensOut: num(v.tokensOut),
    cost: num(v.cost),
  };
}

/** An entry as `GET /v1/events` tells it, or null when it is not a whole one. */
export function readActivity(payload: unknown): ActivityEntry | null {
  const v = object(payload);
  const entry = readEntry("entry" in v ? object(v.entry) : v);
  return entry.id === "" || entry.at === 0 ? null : entry;
}

export function activityCalls(call: Call) {
  return {
    /** Newest first. `before` is the id of the last one that is known. */
    async activity(filter: ActivityFilter, page: { before?: string; limit: number }): Promise<ActivityEntry[]> {
      const query = new URLSearchParams({ limit: String(page.limit) });
      for (const [name, value] of Object.entries(filter)) if (value) query.set(name, value);
      if (page.before) query.set("before", page.before);
      return list(object(await call("GET", `/v1/activity?${query}`)).entries).map(readEntry);
    },
    /** Ends everything that the app has running; resolves to how many things that were. */
    async stopApp(app: string): Promise<number> {
      return num(object(await call("POST", `/v1/activity/${encodeURIComponent(app)}/stop`)).stopped) ?? 0;
    },
  };
}
