// The page's own plugin and the few engine addresses that an app may use, over the bridged fetch.

export interface Conversation {
  id: string;
  title: string;
  titled: boolean;
  model: string | null;
  createdAt: number;
  updatedAt: number;
  count: number;
  reasoning?: string | null;
  /** Where a search found its words. */
  hit?: { n: number; text: string };
}

export interface Usage {
  tokensIn: number;
  tokensOut: number;
  /** In US dollars; null where no price is known. */
  cost: number | null;
}

export interface Message {
  n: number;
  role: "user" | "assistant";
  text: string;
  thinking?: string;
  at: number;
  state: "done" | "pending" | "stopped" | "interrupted" | "error";
  model?: string | null;
  chatId?: string;
  /** Addresses of assets. */
  images?: string[];
  usage?: Usage;
  thoughtMs?: number;
  error?: string;
  retryFailed?: string;
  unsaved?: string;
}

export interface Model {
  ref: string;
  label: string;
  connectionName: string | null;
  canned: boolean;
  reasoning?: boolean;
  reasoningLevels?: string[];
  /** Whether it takes images; null where nobody says. */
  images?: boolean | null;
}

export interface Models {
  models: Model[];
  errors: { connectionName: string; error: string }[];
  default: string | null;
}

export interface Opened {
  conversation: Conversation;
  messages: Message[];
}

/** The engine or the plugin answered, with a refusal. (A TypeError instead means that nobody answered.) */
export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

const app = (globalThis as { chrysalis?: { app: string } }).chrysalis?.app ?? "chat";
const base = `/v1/apps/${encodeURIComponent(app)}`;

async function json<A>(method: string, path: string, body?: unknown): Promise<A> {
  const response = await fetch(path, {
    method,
    ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
  });
  const text = await response.text();
  let answer: unknown = null;
  try {
    answer = text === "" ? null : JSON.parse(text);
  } catch {
    // Not from the plugin, then; the status says enough.
  }
  if (response.ok) return answer as A;
  const { error: said, code } = (answer ?? {}) as { error?: unknown; code?: unknown };
  throw new Refused(response.status, String(code ?? ""), typeof said === "string" ? sentence(said) : `Status ${response.status}.`);
}

function sentence(text: string): string {
  return /[.!?…]$/.test(text) ? text : `${text}.`;
}

export interface Asked {
  model: string | null;
  reasoning: string | null;
  chatId: string;
}

export const api = {
  models: () => json<Models>("GET", "/v1/models"),
  list: async (search = "") => {
    const query = search === "" ? "" : `?q=${encodeURIComponent(search)}`;
    return (await json<{ conversations: Conversation[] }>("GET", `${base}/conversations${query}`)).conversations;
  },
  /** Keeps a picture among this app's assets; gives its address. */
  keepImage: async (image: Blob) => {
    const response = await fetch("/v1/assets", { method: "PUT", body: image, headers: { "content-type": image.type } });
    const answer = (await response.json().catch(() => ({}))) as { id?: string; error?: string };
    if (response.ok && answer.id) return `/v1/assets/${answer.id}`;
    throw new Refused(response.status, "", sentence(answer.error ?? `Status ${response.status}`));
  },
  create: async (model: string | null, reasoning: string | null) =>
    (await json<{ conversation: Conversation }>("POST", `${base}/conversations`, { model, reasoning })).conversation,
  change: async (
    id: string,
    patch: { title?: string; model?: string | null; reasoning?: string | null; deleted?: false },
  ) =>
    (await json<{ conversation: Conversation }>("PATCH", `${base}/conversations/${id}`, patch)).conversation,
  remove: (id: string) => json<unknown>("DELETE", `${base}/conversations/${id}`),
  open: (id: string, lost?: string) =>
    json<Opened>("GET", `${base}/conversations/${id}${lost ? `?lost=${encodeURIComponent(lost)}` : ""}`),
  send: (id: string, body: Asked & { text: string; images?: string[] }) =>
    json<{ conversation: Conversation; message: Message }>("POST", `${base}/conversations/${id}/send`, body),
  edit: (id: string, body: Asked & { n: number; text: string; images?: string[] }) =>
    json<{ conversation: Conversation; message: Message }>("POST", `${base}/conversations/${id}/edit`, body),
  unedit: (id: string) => json<Opened>("POST", `${base}/conversations/${id}/unedit`, {}),
  retry: (id: string, body: Asked) =>
    json<{ conversation: Conversation; message: Message }>("POST", `${base}/conversations/${id}/retry`, body),
  stop: (chatId: string) => json<{ active: boolean }>("POST", `${base}/__abort`, { chatId }),
  stream: (chatId: string, signal: AbortSignal) =>
    fetch(`${base}/__streams/${chatId}`, { headers: { accept: "text/event-stream" }, signal }),
};
