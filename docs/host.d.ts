/**
 * What a plugin of Chrysalis gets, for editors and for `tsc --checkJs`. Copy this file beside your plugins, with a
 * `jsconfig.json` there of `{"compilerOptions": {"checkJs": true, "lib": ["ES2023"], "types": []}}`: without the library
 * "DOM", what a plugin does not have (`fetch`, `document`, …) is an error. Then:
 *
 *     /** @type {chrysalis.HandleRoute} *\/
 *     export function handleRoute(req, host) { … }
 *
 * How everything behaves is in plugins.md.
 */
declare namespace chrysalis {
  /** What JSON can say. */
  type Json = string | number | boolean | null | Json[] | { [name: string]: Json };

  /** The exports that are called. A plugin has those it needs. */
  interface Plugin {
    handleRoute?: HandleRoute;
    TOOLS?: ToolDefinition[];
    handleTool?: HandleTool;
    appTools?: AppTools;
    uiPanel?: UiPanel;
    llmRequest?: LlmRequestHook;
    llmResponse?: LlmResponseHook;
    onTick?: OnTick;
    onAppUpdate?: OnAppUpdate;
  }

  /** A value, now or later. */
  type Soon<T> = T | Promise<T>;

  /** Permission `routes`. Nothing, or an object without `status`, `json` and `text`: the next plugin is asked. */
  type HandleRoute = (req: RouteRequest, host: Host) => Soon<RouteAnswer | Pending | void | null>;
  /** Permission `tools`. */
  type HandleTool = (name: string, args: any, host: Host) => Soon<ToolAnswer | string | Pending | void>;
  /** Permission `tools`: what is offered to the model requests of the app's other plugins. `plugin` is who asks. */
  type AppTools = (ctx: { app: string; plugin: string }, host: Host) => Soon<{ tools: ToolDefinition[] } | Pending | void>;
  /** What the app's page may show of this plugin; without a string `label` it counts as nothing. */
  type UiPanel = (ctx: { app: string; plugin: string }, host: Host) => Soon<{ label: string; [name: string]: any } | Pending | void | null>;
  /** Permissions `hooks` and `llm`: before a request of this app's plugins goes to a model. */
  type LlmRequestHook = (ctx: LlmRequestContext, host: Host) => Soon<LlmRequestPatch | Pending | void | null>;
  /** Permissions `hooks` and `llm`: before an answer goes to who asked. */
  type LlmResponseHook = (ctx: LlmResponseContext, host: Host) => Soon<LlmResponsePatch | Pending | void | null>;
  /** Permission `schedule`. What it gives goes to the app's pages as `plugin_event`. */
  type OnTick = (ctx: { pluginId: string }, host: Host) => Soon<Json | Pending | void>;
  /** To bring data along: called by `POST /v1/data-updates/<id>` alone for now. */
  type OnAppUpdate = (ctx: { from: string; to: string }, host: Host) => Soon<any>;

  /** Says that the call goes on in the next pass, with `stash` in `req.stash` (routes only). */
  interface Pending {
    __llmPending: true;
    stash?: Json;
  }

  interface RouteRequest {
    /** In capitals. */
    method: string;
    /** Decoded, relative to the app, with a leading slash. */
    path: string;
    query: { [name: string]: string };
    /** JSON where the body was JSON, else a string; null when there was none. */
    body: any;
    /** What the pass before this one put aside. */
    stash?: any;
  }

  interface RouteAnswer {
    /** 200 to 599; 200 when left out. */
    status?: number;
    json?: any;
    text?: string;
    /** `application/json` for `json`, else `text/plain; charset=utf-8`. */
    contentType?: string;
  }

  interface ToolDefinition {
    /** `[a-zA-Z0-9_-]{1,64}` */
    name: string;
    /** Up to 2048 characters. */
    description?: string;
    /** A JSON schema of an object. */
    parameters?: { [name: string]: any };
  }

  interface ToolAnswer {
    text: string;
    isError?: boolean;
  }

  interface LlmRequestContext {
    /** With `source`, which the engine stamps, and without `tools`. */
    request: GenerateRequest & { source: string };
    /** Who asks: `<app>__<plugin>`. */
    plugin: string;
    /** The key of a queued request, "" for an awaited one. */
    key: string;
  }

  interface LlmResponseContext extends LlmRequestContext {
    result: GenerateResult;
  }

  /** Fields of a request that a hook may set; null takes one away. */
  type LlmRequestPatch = {
    [Field in
      | "messages" | "systemPrompt" | "model" | "sessionId" | "reasoning" | "thinkingBudget" | "reasoningTags"
      | "assistantPrefill" | "promptFormat" | "presetParams" | "cache" | "schema" | "streamMuted"
      | "streamDecode"]?: GenerateRequest[Field] | null;
  };

  interface LlmResponsePatch {
    text?: string;
    json?: any;
    reasoning?: string;
    assistantPrefill?: string;
  }

  type Permission =
    | "llm" | "store" | "schedule" | "network" | "local-network" | "tools" | "routes" | "fs" | "zip" | "hooks";

  interface Host {
    /** Writes to the log, as `console.log` does: 200 lines of 500 characters per call. */
    log(...parts: any[]): void;
    /** Waits up to 60 s; 120 s per call in all. */
    sleep(ms: number): Promise<void>;
    store: Store;
    llm: Llm;
    /** Undefined unless `network` or `local-network` is granted. */
    net?: Net;
    fs: Fs;
    zip: Zip;
    /** What the app's other plugins offer, when the route was called with `?siblingtools=1`. */
    siblingTools: ToolDefinition[];
    /** What is granted at this moment. For what to show; every call is checked anew. */
    permissions: { [Name in Permission]?: boolean };
    /** The app's id, `_` for plugins that belong to no app. */
    app: string;
    plugin: string;
  }

  /** Permission `store`: 1 MiB per plugin in all, or what `storeQuota` asked for. Keys have up to 512 characters. */
  interface Store {
    /** A fresh copy, or null. */
    get(key: string): any;
    /** Throws when the store would be over its limit, and changes nothing then. `undefined` is kept as null. */
    put(key: string, value: any): void;
    /** Whether there was one. */
    delete(key: string): boolean;
    /** Keys that begin like this, sorted, at most 10,000. */
    keys(prefix?: string): string[];
    /**
     * Writes `value` if what is there still equals `expected` (null: nothing there); `undefined` deletes. Gives whether it
     * was written.
     */
    cas(key: string, expected: any, value: any): Promise<boolean>;
    /** Reads, changes and writes, again from the start when somebody else wrote meanwhile. Gives the new value. */
    update<T = any>(key: string, change: (value: any) => Soon<T>): Promise<T>;
    /** Pairs in the order of their keys: 1000, or `limit` up to 10,000, and 8 MiB. Go on with `after`: the last key. */
    scan(options?: { prefix?: string; after?: string; limit?: number }): Promise<[key: string, value: any][]>;
    /** Up to 1000 writes, all or none. */
    batch(writes: ({ put: string; value: any } | { delete: string })[]): Promise<void>;
    /** Writes of `work` are kept all together at its end; none when it throws. */
    transaction<T>(work: (store: Pick<Store, "get" | "put"> & { delete(key: string): void }) => Soon<T>): Promise<T>;
  }

  interface Message {
    /** Other words are refused when the request is made; here any string goes, so that lists need no annotation. */
    role: "user" | "assistant" | "system" | (string & {});
    content: string | ContentPart[];
    /** Of a user's turn; up to 20. */
    images?: Image[];
    reasoning?: string;
    reasoningModel?: string;
    /** What an earlier result said to send along with its text. */
    replay?: any;
  }

  /** Text or an image, in the ways of OpenAI (`image_url`) and Anthropic (`source`). */
  interface ContentPart {
    type: "text" | "image_url" | "input_image" | "image" | (string & {});
    text?: string;
    image_url?: { url: string } | string;
    source?: any;
  }

  /** PNG, JPEG, GIF or WebP: a `data:` address with base64, or `/v1/assets/<id>`. A web address is refused. */
  type Image = string | { url: string };

  /** A way to write a conversation out for text completion. Texts of up to 400 characters. */
  interface PromptFormat {
    systemPrefix?: string;
    systemSuffix?: string;
    userPrefix?: string;
    userSuffix?: string;
    assistantPrefix?: string;
    assistantSuffix?: string;
    systemAsUser?: boolean;
  }

  /** What kind of failure it was; each is explained in models.md. */
  type ErrorKind =
    | "key" | "credit" | "rate_limit" | "model_gone" | "context" | "refused" | "network" | "server" | "stalled"
    | "truncated" | "not_the_api" | "unusable" | "limit";

  interface ErrorInfo {
    kind: ErrorKind;
    provider: string;
    model?: string | null;
    /** The HTTP status, if there was an answer. */
    status?: number;
    /** The provider's own word. */
    code?: string;
    retryAfterMs?: number;
    /** The size of the model's context in tokens, where the server said so. */
    window?: number;
    responseId?: string;
  }

  /** What an answer consists of, in its order. */
  type ResultPart =
    | { type: "text"; text: string }
    | { type: "thinking"; text: string; ms: number }
    | { type: "tool"; name: string; args: any; resultText: string; isError: boolean };

  interface GenerateRequest {
    messages: Message[];
    systemPrompt?: string;
    /** A `ref` of `GET /v1/models`. Without it the person's default. Never exchanged for another. */
    model?: string | null;
    sessionId?: string;
    reasoning?: "off" | "minimal" | "low" | "med" | "medium" | "high" | "xhigh" | "max";
    /** Tokens to think with, where the model takes a number. */
    thinkingBudget?: number;
    /** Marks of thinking that a model writes into its text. */
    reasoningTags?: { open: string; close: string };
    /** The beginning of the answer, put into the model's mouth. */
    assistantPrefill?: string;
    /** For text completion: a format's id, `auto`, or one of one's own. */
    promptFormat?: string | PromptFormat;
    /** `params` goes into the body as it is, except for what would do more than shape the answer. */
    presetParams?: { temperature?: number; max_tokens?: number; params?: { [name: string]: any } };
    /** Marks what the server is to keep of the prompt: turns from the end, and for five minutes or an hour. */
    cache?: { depth?: number; retention?: "none" | "short" | "long" | (string & {}) };
    /** Up to 16 tools of this plugin's own, answered by its `handleTool`. Dropped without the permission `tools`. */
    tools?: ToolDefinition[];
    /** Adds what the app's other plugins offer (`appTools`). */
    wantsTools?: boolean;
    /** A JSON schema for the answer, which is in `json` of the result; look whether it is there. */
    schema?: { [name: string]: any };
    /** Lets pages read the answer as it grows, and stop it: `chatId` up to 200 characters. */
    stream?: { chatId: string; name?: string };
    streamMuted?: boolean;
    /** Shows only these fields of an answer that is JSON, while it streams. */
    streamDecode?: { field?: string; fields?: string[]; replace?: { from: string; to: string }[] };
  }

  interface GenerateResult {
    /** What had arrived, when there is `error`, `stopped` or `truncated`. */
    text: string;
    /** `connection/model`; "error" when there is no text at all because of a failure. */
    model: string;
    usage: {
      input: number;
      output: number;
      reasoning?: number;
      cacheRead: number;
      cacheWrite: number;
      /** In US dollars; means something only if `priced`. */
      costTotal: number;
      /** False when nobody knows the price. */
      priced: boolean;
    };
    genTimeMs: number;
    reasoning?: string;
    reasoningTimeMs?: number;
    /** What was sent beside the messages. */
    requestParams?: { [name: string]: any };
    assistantPrefill?: string;
    /** What `schema` asked for. */
    json?: any;
    toolTrace?: { name: string; args: any; resultText: string; isError: boolean }[];
    /** To be kept with the text and sent along in a later request. */
    replay?: any;
    /** Text, thinking and tools in their order. */
    parts?: ResultPart[];
    finishReason?: string;
    /** The answer broke off. */
    truncated?: boolean;
    /** Somebody stopped it, or its deadline passed. */
    stopped?: boolean;
    /** For the person: what was wrong and what to do. */
    error?: string;
    errorInfo?: ErrorInfo;
  }

  /** What arrived since the last part: text, or a tool that the model used. */
  interface StreamPart {
    delta?: string;
    thinking?: string;
    tool?: { phase: "start" | "end"; name: string; args: any; result: string; isError: boolean };
  }

  /** An answer as it grows. */
  interface Stream extends AsyncIterable<StreamPart> {
    /** The whole result; reads what is left of the stream. */
    readonly result: Promise<GenerateResult>;
    /** Ends it; `result` then has what had arrived. */
    abort(): Promise<boolean>;
  }

  /** 1 to 3,600,000 ms; what had arrived until then is the result, with `stopped` and `error`. */
  interface Deadline {
    timeoutMs?: number;
  }

  interface EmbedRequest {
    /** Up to 2048; each is cut at 8000 characters. */
    texts: string[];
    model?: string;
  }

  /** Permission `llm`. 64 requests of a call may be open at a time. */
  interface Llm {
    generate(request: GenerateRequest, options?: Deadline): Promise<GenerateResult> & { abort(): Promise<boolean> };
    stream(request: GenerateRequest, options?: Deadline): Stream;
    /** One vector for each text; null where no connection is chosen for it and none has a key. */
    embed(request: EmbedRequest): Promise<number[][] | null>;

    /** The older form: queues up to 16 per pass; the answer is in `results` in the next pass. */
    request(key: string, request: GenerateRequest): void;
    results: { [key: string]: GenerateResult };
    /** The older form: queues up to 8 per pass; the vectors are in `embedResults` in the next pass. */
    embed(key: string, request: EmbedRequest): void;
    embedResults: { [key: string]: number[][] | null };
  }

  interface NetRequest {
    /** `http://` or `https://`, of a host that was granted. */
    url: string;
    /** GET when left out; not CONNECT or TRACE. */
    method?: string;
    /** A secret is attached on its way out, to the origin that it was saved for; its value is never here. */
    headers?: { [name: string]: string | number | boolean | null | { secret: string; prefix?: string } };
    /** One of `body` (anything but a string is sent as JSON), `form` (urlencoded) and `bodyBase64` (bytes). */
    body?: any;
    form?: { [name: string]: string | number | boolean | null | (string | number | boolean)[] } | string;
    bodyBase64?: string;
    /** For all of it; 500 to 60,000, 15,000 when left out. */
    timeoutMs?: number;
    /** 1024 to 20 MiB, 5 MiB when left out. */
    maxBytes?: number;
    /** true: the answer must be JSON. false: it comes as text whatever its type says. */
    json?: boolean;
    /** The answer comes as base64. */
    binary?: boolean;
    /** Accepted and without effect: up to 5 redirects are followed, each checked like the first address. */
    followRedirects?: boolean;
  }

  interface NetHead {
    /** Whether the status is 200 to 299. */
    ok: boolean;
    status: number;
    statusText: string;
    /** Names in lower case. */
    headers: { [name: string]: string };
    /** The last address. */
    url: string;
    contentType?: string;
  }

  /** When nothing came of it there is only `ok: false` and `error`. */
  interface NetResult extends Partial<NetHead> {
    ok: boolean;
    error?: string;
    json?: any;
    text?: string;
    base64?: string;
  }

  /** An answer whose body is read piece by piece; without `body` when nothing came of it. */
  interface NetStream extends Partial<NetHead> {
    ok: boolean;
    error?: string;
    /** Strings; `Uint8Array` with `binary: true`. */
    body?: AsyncIterable<any>;
  }

  /** Permissions `network` and `local-network`. Failures are results, not exceptions. */
  interface Net {
    fetch(request: NetRequest & { stream: true }): Promise<NetStream> & { abort(): void };
    fetch(request: NetRequest | string): Promise<NetResult> & { abort(): void };
    /** The older form: queues up to 32 per pass; the answer is in `results` in the next pass. */
    request(key: string, request: NetRequest): void;
    results: { [key: string]: NetResult };
  }

  type Bytes = Uint8Array | ArrayBuffer | ArrayBufferView;

  interface Stat {
    kind: "file" | "folder";
    /** In bytes. */
    size: number;
    /** Milliseconds since 1970, null where unknown. */
    modified: number | null;
  }

  /**
   * Permission `fs`: the app's `data/` folder. Paths are relative to it, `a/b`. Everything throws an `Error` that names
   * the folder as `[app-data]`. Files are read and written whole up to 64 MiB.
   */
  interface Fs {
    /** Throws when there is no such file. */
    read(path: string): string;
    readBase64(path: string): string;
    readBytes(path: string): Uint8Array;
    /** Up to 8 MiB; fewer bytes at the end of the file, none behind it. */
    readChunk(path: string, offset: number, length: number): Uint8Array;
    /** Whole or not at all; makes the folders above it. */
    write(path: string, text: string): void;
    writeBytes(path: string, bytes: Bytes): void;
    append(path: string, value: string | Bytes): void;
    /** With the folders above it. */
    mkdir(path: string): void;
    /** Sorted names. */
    list(path?: string): string[];
    /** With everything in it; nothing there is fine. Not the folder itself. */
    remove(path: string): void;
    /** Replaces a file, never a folder. */
    rename(from: string, to: string): void;
    stat(path: string): Stat;
    exists(path: string): boolean;
    /** Reads a record, null if there is none. Upper and lower case of `key` are one. */
    lookup(collection: string, key: string): any;
    /** Writes a record of up to 4096 bytes of JSON. */
    lookup(collection: string, key: string, value: any): void;
    /** Keeps a picture (png, jpeg, webp, gif) and gives its address for the app's pages. */
    media(dataUri: string): string;
    /** A large file, chunk by chunk. */
    stream(path: string, options?: { chunkBytes?: number }): AsyncIterable<Uint8Array>;
    /** Writes a large file piece by piece; nothing is there before `close`. */
    writer(path: string): FileWriter;
    /** What `work` does stays at its end, or is undone when it throws. At most 60 s. */
    transaction<T>(work: (fs: Fs) => Soon<T>): Promise<T>;
  }

  interface FileWriter {
    /** Up to 8 MiB at a time. */
    write(chunk: string | Bytes): Promise<void>;
    close(): Promise<void>;
    abort(): Promise<void>;
  }

  type ZipEntry = string | { __b64__: true; base64: string; size: number } | { __binary__: true; size: number };

  /** Permission `zip`: the archive that came as `zipBase64` in the body of the route call. */
  interface Zip {
    /** How many files it holds. */
    list(): number;
    names(): string[];
    /** All files by name: texts, or their bytes in base64 up to 16 MiB, or their size. */
    entries(): { [name: string]: ZipEntry };
    stat(name: string): { kind: "file" | "folder"; size: number; compressed: number; unreadable: string | null } | null;
    read(name: string): string;
    readBytes(name: string): Uint8Array;
    readChunk(name: string, offset: number, length: number): Uint8Array;
    stream(name: string, options?: { chunkBytes?: number }): AsyncIterable<Uint8Array>;
    /** Keeps a picture in the app's data folder; gives its address and the text inside a PNG. */
    image(name: string): { url: string; metadata: { [key: string]: string }; repairs?: string[] };
  }
}

// The globals. Everything else of a browser or of Node is absent.

interface TextEncoder {
  readonly encoding: string;
  encode(text?: string): Uint8Array;
  encodeInto(text: string, into: Uint8Array): { read: number; written: number };
}
declare var TextEncoder: { new (): TextEncoder };

interface TextDecoder {
  readonly encoding: string;
  readonly fatal: boolean;
  readonly ignoreBOM: boolean;
  decode(bytes?: chrysalis.Bytes, options?: { stream?: boolean }): string;
}
declare var TextDecoder: { new (label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean }): TextDecoder };

interface URL {
  href: string;
  readonly origin: string;
  protocol: string;
  username: string;
  password: string;
  host: string;
  hostname: string;
  port: string;
  pathname: string;
  search: string;
  readonly searchParams: URLSearchParams;
  hash: string;
  toString(): string;
  toJSON(): string;
}
declare var URL: {
  new (url: string | URL, base?: string | URL): URL;
  canParse(url: string | URL, base?: string | URL): boolean;
};

interface URLSearchParams extends Iterable<[string, string]> {
  readonly size: number;
  append(name: string, value: string): void;
  delete(name: string, value?: string): void;
  get(name: string): string | null;
  getAll(name: string): string[];
  has(name: string, value?: string): boolean;
  set(name: string, value: string): void;
  sort(): void;
  forEach(each: (value: string, name: string, params: URLSearchParams) => void): void;
  entries(): IterableIterator<[string, string]>;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string>;
  toString(): string;
}
declare var URLSearchParams: {
  new (init?: string | Iterable<[string, string]> | { [name: string]: string } | URLSearchParams): URLSearchParams;
};

declare function atob(base64: string): string;
declare function btoa(text: string): string;
declare function structuredClone<T>(value: T): T;
declare var crypto: {
  getRandomValues<T extends ArrayBufferView>(array: T): T;
  randomUUID(): string;
};
declare var console: {
  log(...parts: any[]): void;
  info(...parts: any[]): void;
  debug(...parts: any[]): void;
  trace(...parts: any[]): void;
  warn(...parts: any[]): void;
  error(...parts: any[]): void;
};
/** Timers end with the call. */
declare function setTimeout(run: (...args: any[]) => void, ms?: number, ...args: any[]): number;
declare function clearTimeout(id?: number): void;
declare function setInterval(run: (...args: any[]) => void, ms?: number, ...args: any[]): number;
declare function clearInterval(id?: number): void;
/** Inert, for code that looks for it. */
declare var process: { env: { [name: string]: string }; cwd(): string; exit(code?: number): never };
/** Inert, for code that looks for it. */
declare var Buffer: any;
