// What plugins get of the globals that browsers have. Read as `__sandbox.web`, when one of them is first used in a
// context: most calls use none. Guest code, like the prelude: it guards nothing. The default export takes `__sandbox`
// and gives a function from a global's name to its value.
const bytesOf = (value) => {
  if (value instanceof Uint8Array) return value;
  const view = ArrayBuffer.isView(value);
  const buffer = view ? value.buffer : value;
  if (!(buffer instanceof ArrayBuffer || buffer instanceof SharedArrayBuffer)) {
    throw new TypeError("bytes are needed here: an ArrayBuffer or a view of one");
  }
  // Given away: as good as empty.
  if (buffer.detached) return new Uint8Array(0);
  return view ? new Uint8Array(buffer, value.byteOffset, value.byteLength) : new Uint8Array(buffer);
};

// Like the errors of a browser, as far as their `name` goes.
const named = (name, message) => Object.defineProperty(new Error(message), "name", { value: name, configurable: true, writable: true });

const tag = (holder, name) => Object.defineProperty(holder.prototype, Symbol.toStringTag, { value: name, configurable: true });

// Methods of browsers' classes can be listed.
const listed = (holder, ...names) => {
  for (const name of names) Object.defineProperty(holder.prototype, name, { enumerable: true });
};

const text = (native) => {
  class TextEncoder {
    get encoding() {
      return "utf-8";
    }
    encode(input = "") {
      return native.utf8Encode(`${input}`);
    }
    encodeInto(source, destination) {
      if (!(destination instanceof Uint8Array)) throw new TypeError("encodeInto needs a Uint8Array to write into");
      const [read, written] = native.utf8EncodeInto(`${source}`, destination);
      return { read, written };
    }
  }

  class TextDecoder {
    #encoding;
    #fatal;
    #ignoreBOM;
    // The decoder between two pieces of a stream.
    #open = null;
    constructor(label = "utf-8", options) {
      const encoding = native.encoding(`${label}`);
      if (encoding === undefined) throw new RangeError(`there is no encoding with the label "${label}"`);
      this.#encoding = encoding;
      this.#fatal = Boolean(options?.fatal);
      this.#ignoreBOM = Boolean(options?.ignoreBOM);
    }
    get encoding() {
      return this.#encoding;
    }
    get fatal() {
      return this.#fatal;
    }
    get ignoreBOM() {
      return this.#ignoreBOM;
    }
    decode(input, options) {
      const bytes = input === undefined ? new Uint8Array(0) : bytesOf(input);
      const last = !options?.stream;
      const open = this.#open;
      this.#open = null;
      if (last && open === null) return native.decode(this.#encoding, bytes, this.#fatal, this.#ignoreBOM);
      const decoder = open ?? native.decoder(this.#encoding, this.#fatal, this.#ignoreBOM);
      const piece = native.decodeNext(decoder, bytes, last);
      if (!last) this.#open = decoder;
      return piece;
    }
  }
  listed(TextEncoder, "encoding", "encode", "encodeInto");
  listed(TextDecoder, "encoding", "fatal", "ignoreBOM", "decode");
  tag(TextEncoder, "TextEncoder");
  tag(TextDecoder, "TextDecoder");
  return { TextEncoder, TextDecoder };
};

const addresses = (native) => {
  // Of a URLSearchParams that belongs to a URL: what to call after a change.
  let bind;

  class URLSearchParams {
    // Name, value, name, value, …
    #list = [];
    #changed = null;
    static {
      bind = (params, query, changed) => {
        params.#list = native.formDecode(query);
        params.#changed = changed;
      };
    }
    constructor(init = "") {
      if (init === null || (typeof init !== "object" && typeof init !== "function")) {
        const query = `${init}`;
        this.#list = native.formDecode(query[0] === "?" ? query.slice(1) : query);
      } else if (init[Symbol.iterator] != null) {
        for (const pair of init) {
          if (pair === null || typeof pair !== "object" || pair[Symbol.iterator] == null) {
            throw new TypeError("each entry must be a pair of a name and a value");
          }
          const both = [...pair];
          if (both.length !== 2) throw new TypeError("each entry must be a pair of a name and a value");
          this.#push(both[0], both[1]);
        }
      } else {
        for (const name of Reflect.ownKeys(init)) {
          if (Object.getOwnPropertyDescriptor(init, name)?.enumerable) this.#push(name, init[name]);
        }
      }
    }
    #push(name, value) {
      this.#list.push(`${name}`.toWellFormed(), `${value}`.toWellFormed());
    }
    #told() {
      this.#changed?.(this.toString());
    }
    #need(count, given) {
      if (given < count) throw new TypeError(`${count} argument${count > 1 ? "s are" : " is"} needed here, not ${given}`);
    }
    get size() {
      return this.#list.length / 2;
    }
    append(name, value) {
      this.#need(2, arguments.length);
      this.#push(name, value);
      this.#told();
    }
    delete(name, value) {
      this.#need(1, arguments.length);
      name = `${name}`.toWellFormed();
      value = value === undefined ? undefined : `${value}`.toWellFormed();
      const kept = [];
      for (let i = 0; i < this.#list.length; i += 2) {
        if (this.#list[i] === name && (value === undefined || this.#list[i + 1] === value)) continue;
        kept.push(this.#list[i], this.#list[i + 1]);
      }
      this.#list = kept;
      this.#told();
    }
    get(name) {
      this.#need(1, arguments.length);
      return this.getAll(name)[0] ?? null;
    }
    getAll(name) {
      this.#need(1, arguments.length);
      name = `${name}`.toWellFormed();
      return this.#list.filter((_, i, list) => i % 2 === 1 && list[i - 1] === name);
    }
    has(name, value) {
      this.#need(1, arguments.length);
      const all = this.getAll(name);
      return value === undefined ? all.length > 0 : all.includes(`${value}`.toWellFormed());
    }
    set(name, value) {
      this.#need(2, arguments.length);
      name = `${name}`.toWellFormed();
      value = `${value}`.toWellFormed();
      const kept = [];
      let done = false;
      for (let i = 0; i < this.#list.length; i += 2) {
        if (this.#list[i] !== name) kept.push(this.#list[i], this.#list[i + 1]);
        else if (!done) {
          kept.push(name, value);
          done = true;
        }
      }
      if (!done) kept.push(name, value);
      this.#list = kept;
      this.#told();
    }
    sort() {
      // By UTF-16 units, as `<` compares; those of one name keep their order.
      const pairs = [];
      for (let i = 0; i < this.#list.length; i += 2) pairs.push([this.#list[i], this.#list[i + 1]]);
      pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
      this.#list = pairs.flat();
      this.#told();
    }
    forEach(callback, thisArg) {
      if (typeof callback !== "function") throw new TypeError("forEach needs a function");
      for (const [name, value] of this) callback.call(thisArg, value, name, this);
    }
    // Looks at the list as it is at each step, as browsers do.
    *entries() {
      for (let i = 0; i < this.#list.length; i += 2) yield [this.#list[i], this.#list[i + 1]];
    }
    *keys() {
      for (const [name] of this.entries()) yield name;
    }
    *values() {
      for (const [, value] of this.entries()) yield value;
    }
    toString() {
      return native.formEncode(this.#list);
    }
  }
  Object.defineProperty(URLSearchParams.prototype, Symbol.iterator, {
    value: URLSearchParams.prototype.entries,
    configurable: true,
    writable: true,
  });
  listed(URLSearchParams, "size", "append", "delete", "get", "getAll", "has", "set", "sort", "forEach", "entries", "keys", "values", "toString");
  tag(URLSearchParams, "URLSearchParams");

  const parse = (address, base) => {
    const parts = base === undefined ? native.urlParse(`${address}`) : native.urlParse(`${address}`, `${base}`);
    return parts ?? undefined;
  };

  class URL {
    #parts;
    #params = null;
    constructor(address, base) {
      if (arguments.length === 0) throw new TypeError("a URL needs an address");
      const parts = parse(address, base);
      if (parts === undefined) {
        throw Object.assign(new TypeError(`Invalid URL: ${`${address}`.slice(0, 200)}`), { code: "ERR_INVALID_URL" });
      }
      this.#parts = parts;
    }
    static parse(address, base) {
      return URL.canParse(address, base) ? new URL(address, base) : null;
    }
    static canParse(address, base) {
      return parse(address, base) !== undefined;
    }
    #set(part, value) {
      this.#parts = native.urlSet(this.#parts.href, part, `${value}`);
      if (part === "search" || part === "href") this.#bind();
    }
    #bind() {
      if (this.#params === null) return;
      bind(this.#params, this.#parts.search.slice(1), (query) => {
        this.#parts = native.urlSet(this.#parts.href, "search", query);
      });
    }
    get searchParams() {
      if (this.#params === null) {
        this.#params = new URLSearchParams();
        this.#bind();
      }
      return this.#params;
    }
    get origin() {
      return this.#parts.origin;
    }
    get href() {
      return this.#parts.href;
    }
    set href(value) {
      this.#set("href", value);
    }
    get protocol() {
      return this.#parts.protocol;
    }
    set protocol(value) {
      this.#set("protocol", value);
    }
    get username() {
      return this.#parts.username;
    }
    set username(value) {
      this.#set("username", value);
    }
    get password() {
      return this.#parts.password;
    }
    set password(value) {
      this.#set("password", value);
    }
    get host() {
      return this.#parts.host;
    }
    set host(value) {
      this.#set("host", value);
    }
    get hostname() {
      return this.#parts.hostname;
    }
    set hostname(value) {
      this.#set("hostname", value);
    }
    get port() {
      return this.#parts.port;
    }
    set port(value) {
      this.#set("port", value);
    }
    get pathname() {
      return this.#parts.pathname;
    }
    set pathname(value) {
      this.#set("pathname", value);
    }
    get search() {
      return this.#parts.search;
    }
    set search(value) {
      this.#set("search", value);
    }
    get hash() {
      return this.#parts.hash;
    }
    set hash(value) {
      this.#set("hash", value);
    }
    toString() {
      return this.#parts.href;
    }
    toJSON() {
      return this.#parts.href;
    }
  }
  listed(URL, "searchParams", "origin", "href", "protocol", "username", "password", "host", "hostname", "port", "pathname");
  listed(URL, "search", "hash", "toString", "toJSON");
  tag(URL, "URL");
  return { URL, URLSearchParams };
};

const randomness = (native) => {
  class Crypto {
    getRandomValues(array) {
      const whole = ArrayBuffer.isView(array) && !(array instanceof DataView) && !/^(Big)?Float/.test(array[Symbol.toStringTag]);
      if (!whole) throw named("TypeMismatchError", "getRandomValues needs a typed array of whole numbers");
      if (array.byteLength > 65536) throw named("QuotaExceededError", "getRandomValues fills up to 65536 bytes at once");
      native.random(bytesOf(array));
      return array;
    }
    randomUUID() {
      const bytes = native.random(new Uint8Array(16));
      bytes[6] = (bytes[6] & 0x0f) | 0x40;
      bytes[8] = (bytes[8] & 0x3f) | 0x80;
      const hex = bytes.toHex();
      return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
    }
  }
  listed(Crypto, "getRandomValues", "randomUUID");
  tag(Crypto, "Crypto");
  return new Crypto();
};

const cannot = (value) => {
  let shown = typeof value;
  if (typeof value === "function") shown = `the function ${value.name || "without a name"}`;
  else if (typeof value === "object") shown = `a ${Object.prototype.toString.call(value).slice(8, -1)}`;
  return named("DataCloneError", `${shown} cannot be cloned`);
};

const ERRORS = { Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };
const BOXED = [Boolean, Number, String, BigInt];

function structuredClone(value, options) {
  if (arguments.length === 0) throw new TypeError("structuredClone needs a value");
  const seen = new Map();
  const moved = new Set(options?.transfer ?? []);
  for (const one of moved) {
    if (!(one instanceof ArrayBuffer)) throw cannot(one);
    if (one.detached) throw named("DataCloneError", "this ArrayBuffer was given away already");
  }

  const copy = (from) => {
    if (typeof from === "symbol" || typeof from === "function") throw cannot(from);
    if (typeof from !== "object" || from === null) return from;
    const known = seen.get(from);
    if (known !== undefined) return known;
    const keep = (to) => {
      seen.set(from, to);
      return to;
    };
    if (Array.isArray(from)) {
      const to = keep(new Array(from.length));
      for (const key of Object.keys(from)) to[key] = copy(from[key]);
      return to;
    }
    if (from instanceof Date) return keep(new Date(from.getTime()));
    if (from instanceof RegExp) return keep(new RegExp(from.source, from.flags));
    if (from instanceof Map) {
      const to = keep(new Map());
      for (const [key, held] of [...from]) to.set(copy(key), copy(held));
      return to;
    }
    if (from instanceof Set) {
      const to = keep(new Set());
      for (const held of [...from]) to.add(copy(held));
      return to;
    }
    if (from instanceof ArrayBuffer) {
      if (from.detached) throw named("DataCloneError", "this ArrayBuffer was given away");
      return keep(moved.has(from) ? from.transfer() : from.slice(0));
    }
    if (ArrayBuffer.isView(from)) {
      const [offset, length] = [from.byteOffset, from instanceof DataView ? from.byteLength : from.length];
      return keep(new from.constructor(copy(from.buffer), offset, length));
    }
    if (from instanceof Error) {
      const Kind = ERRORS[`${from.name}`] ?? Error;
      const to = keep(new Kind());
      const put = (name, held) => Object.defineProperty(to, name, { value: held, configurable: true, writable: true });
      if ("message" in from) put("message", `${from.message}`);
      put("stack", `${from.stack ?? ""}`);
      if (Object.hasOwn(from, "cause")) put("cause", copy(from.cause));
      return to;
    }
    for (const Kind of BOXED) if (from instanceof Kind) return keep(Object(from.valueOf()));
    const kind = Object.prototype.toString.call(from);
    const refused = [WeakMap, WeakSet, WeakRef, Promise, SharedArrayBuffer, FinalizationRegistry];
    if (refused.some((Kind) => from instanceof Kind) || /Generator|Iterator/.test(kind)) throw cannot(from);
    const to = keep({});
    for (const key of Object.keys(from)) {
      const held = copy(from[key]);
      Object.defineProperty(to, key, { value: held, configurable: true, enumerable: true, writable: true });
    }
    return to;
  };

  const result = copy(value);
  for (const one of moved) if (!one.detached) one.transfer();
  return result;
}

const timers = (sandbox) => {
  const { call, log } = sandbox;
  // Handle → timer, in the order of their making. Timers of an earlier call (of a lasting context) are gone with it.
  let pending = new Map();
  let sleeping = [];
  let last = 0;
  let turn = sandbox.run;
  const LONGEST = 60_000;

  const begin = () => {
    if (turn === sandbox.run) return;
    turn = sandbox.run;
    pending = new Map();
    sleeping = [];
  };

  const earliest = () => {
    let found;
    for (const timer of pending.values()) if (found === undefined || timer.due < found.due) found = timer;
    return found;
  };

  // One host call sleeps until the next timer is due; a timer that is due earlier gets another one.
  const wait = () => {
    const next = earliest();
    if (next === undefined || sleeping.some((end) => end <= next.due)) return;
    const now = Date.now();
    const end = Math.min(Math.max(next.due, now), now + LONGEST);
    const mine = sandbox.run;
    sleeping.push(end);
    const woken = (error) => {
      if (mine !== sandbox.run) return;
      sleeping.splice(sleeping.indexOf(end), 1);
      if (error === undefined) {
        fire(Math.max(Date.now(), end));
        wait();
      } else {
        log("error", `timers have ended: ${error?.message ?? error}`);
        pending.clear();
      }
    };
    call("sleep", [Math.max(0, end - now)]).then(() => woken(), woken);
  };

  // One at a time: what it set off (promises) comes before the next one.
  const fire = (now) => {
    const timer = earliest();
    if (timer === undefined || timer.due > now) return;
    if (timer.every === null) pending.delete(timer.handle);
    else timer.due = now + timer.every;
    try {
      timer.run();
    } catch (error) {
      // Logged with its place, as every error that nobody catches.
      Promise.reject(error);
    }
  };

  const start = (callback, delay, args, repeat) => {
    if (typeof callback !== "function") throw new TypeError("a timer needs a function to call");
    begin();
    const least = repeat ? 1 : 0;
    delay = Number(delay);
    const every = delay >= least && delay <= 2_147_483_647 ? Math.trunc(delay) : least;
    const handle = ++last;
    const run = () => callback(...args);
    pending.set(handle, { handle, due: Date.now() + every, every: repeat ? every : null, run });
    wait();
    return handle;
  };
  const clear = (handle) => {
    begin();
    pending.delete(Number(handle));
  };

  return {
    setTimeout: (callback, delay = 0, ...args) => start(callback, delay, args, false),
    setInterval: (callback, delay = 0, ...args) => start(callback, delay, args, true),
    clearTimeout: (handle) => clear(handle),
    clearInterval: (handle) => clear(handle),
  };
};

// As much of Node's Buffer as plugins of the reference engine can touch: a function to call, bytes and texts.
const buffers = (native) => {
  const encode = (value, encoding = "utf8") => {
    switch (`${encoding}`.toLowerCase()) {
      case "base64":
      case "base64url":
        return native.base64Decode(value.replaceAll("-", "+").replaceAll("_", "/").replace(/[^A-Za-z0-9+/]/g, "").replace(/^((?:.{4})*).$/, "$1"));
      case "hex":
        return Uint8Array.fromHex(/^(?:[0-9a-f]{2})*/i.exec(value)[0]);
      case "latin1":
      case "binary":
      case "ascii":
        return Uint8Array.from(value, (c) => c.charCodeAt(0));
      default:
        return native.utf8Encode(value);
    }
  };
  function Buffer(value, encoding) {
    return Buffer.from(typeof value === "number" ? new Uint8Array(value) : value, encoding);
  }
  Buffer.from = (value, encoding) => {
    let bytes;
    if (typeof value === "string") bytes = encode(value, encoding);
    else if (value instanceof ArrayBuffer) bytes = new Uint8Array(value);
    else bytes = Uint8Array.from(value?.type === "Buffer" ? value.data : value);
    return Object.setPrototypeOf(bytes, Buffer.prototype);
  };
  Buffer.isBuffer = (value) => value instanceof Buffer;
  Buffer.prototype = Object.create(Uint8Array.prototype, {
    constructor: { value: Buffer, configurable: true, writable: true },
    toString: {
      value: function toString(encoding = "utf8") {
        switch (`${encoding}`.toLowerCase()) {
          case "base64":
            return native.base64Encode(this);
          case "base64url":
            return native.base64Encode(this, { url: true });
          case "hex":
            return this.toHex();
          case "latin1":
          case "binary":
          case "ascii":
            return native.latin1Decode(this);
          default:
            return native.decode("utf-8", this, false, true);
        }
      },
      configurable: true,
      writable: true,
    },
    toJSON: {
      value: function toJSON() {
        return { type: "Buffer", data: Array.from(this) };
      },
      configurable: true,
      writable: true,
    },
  });
  return Buffer;
};

// What plugins of the reference engine find of Node's `process`: nothing to learn and nothing to end.
const inertProcess = () => {
  const shown = Object.create({
    exit() {
      throw new Error("process.exit does nothing in a plugin: return from the function instead");
    },
  });
  return Object.assign(shown, { env: {}, cwd: () => "/" });
};

// Each group is made when one of its names is first read.
export default (sandbox) => {
  const { native } = sandbox;
  const groups = {
    text: () => text(native),
    addresses: () => addresses(native),
    timers: () => timers(sandbox),
    rest: () => ({ structuredClone, process: inertProcess() }),
    crypto: () => ({ crypto: randomness(native) }),
    buffers: () => ({ Buffer: buffers(native) }),
  };
  const of = {
    TextEncoder: "text",
    TextDecoder: "text",
    URL: "addresses",
    URLSearchParams: "addresses",
    setTimeout: "timers",
    setInterval: "timers",
    clearTimeout: "timers",
    clearInterval: "timers",
    structuredClone: "rest",
    process: "rest",
    crypto: "crypto",
    Buffer: "buffers",
  };
  const made = {};
  return (name) => (made[of[name]] ??= groups[of[name]]())[name];
};
