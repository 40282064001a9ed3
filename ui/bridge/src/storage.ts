// biome-ignore-all lint/suspicious/noShadowRestrictedNames: the natives stand in for the globals on purpose.
import { type Fetch, fitsOneMessage } from "./fetch";
import { console, DOMException, later, Map, stringify, wellFormed } from "./natives";
import type { Exchange, Out } from "./wire";

type Which = "local" | "session";

/** Writes that go out at once per `WINDOW_MS`; a window drops what a page sends faster than some thousands a second. */
const AT_ONCE = 400;
const WINDOW_MS = 400;

/**
 * Sends writes to the engine in the order in which they were made, at once as long as there are not too many of them.
 * What has to wait is only the last write of each key. A value too big for a message goes as a request with a body in
 * pieces, and what comes after it waits for it.
 */
export class StorageWrites {
  #waiting = new Map<string, Out>();
  #big = false;
  #timer = false;
  #sent = 0;
  #window = 0;

  constructor(
    private readonly exchange: Exchange,
    private readonly fetch: Fetch,
    private readonly app: string,
    private readonly failed: (which: string, key: string, message: string) => void,
  ) {
    exchange.on("storage-error", (m) => failed(String(m.which), String(m.key ?? ""), String(m.message)));
  }

  write(message: Out) {
    const { which, op, key } = message;
    if (op === "clear") {
      for (const [name, waiting] of this.#waiting) {
        if (waiting.which === which) this.#waiting.delete(name);
      }
    }
    // Two letters of the store and of the kind, then the key: no key can be mistaken for a clearing.
    const name = `${which === "local" ? "l" : "s"}${op === "clear" ? "c" : "k"}${key ?? ""}`;
    this.#waiting.delete(name);
    this.#waiting.set(name, message);
    this.#pump(false);
  }

  /** The page is going: everything that fits a message goes now. */
  flush() {
    this.#pump(true);
  }

  #pump(now: boolean) {
    for (const [name, message] of this.#waiting) {
      if (this.#big || !(now || this.#mayGo())) return;
      this.#waiting.delete(name);
      if (fitsOneMessage(message)) this.exchange.send(message);
      else void this.#sendBig(message);
    }
  }

  #mayGo(): boolean {
    const time = Date.now();
    if (Math.abs(time - this.#window) >= WINDOW_MS) {
      this.#window = time;
      this.#sent = 0;
    }
    if (this.#sent < AT_ONCE) {
      this.#sent += 1;
      return true;
    }
    if (!this.#timer) {
      this.#timer = true;
      later(() => {
        this.#timer = false;
        this.#pump(false);
      }, WINDOW_MS);
    }
    return false;
  }

  async #sendBig({ which, op, key, value }: Out) {
    this.#big = true;
    let problem: string | undefined;
    try {
      const response = await this.fetch(`/v1/apps/${this.app}/__storage`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: stringify({ which, op, key, value }),
      });
      if (!response.ok) problem = ((await response.json()) as { error?: string }).error ?? `status ${response.status}`;
    } catch (error) {
      problem = String(error);
    }
    if (problem) this.failed(String(which), String(key), problem);
    this.#big = false;
    this.#pump(false);
  }
}

export function reportStorage(which: string, key: string, message: string) {
  console.error(`Chrysalis: ${which}Storage${key ? ` "${key}"` : ""} could not be kept: ${message}`);
}

/**
 * A `Storage` whose values live in the page and are written through. The quota (bytes, two for each UTF-16 unit of keys
 * and values) is checked before anything changes; the engine checks it again.
 */
export function makeStorage(
  which: Which,
  initial: Record<string, string>,
  quota: number,
  write: (message: Out) => void,
  prototype: object,
): Storage {
  const values = new Map<string, string>();
  let used = 0;
  for (const key of Object.keys(initial)) {
    const value = String(initial[key]);
    values.set(key, value);
    used += cost(key, value);
  }

  const set = (keyGiven: unknown, valueGiven: unknown) => {
    const key = wellFormed(String(keyGiven));
    const value = wellFormed(String(valueGiven));
    const old = values.get(key);
    if (old === value) return;
    const next = used + cost(key, value) - (old === undefined ? 0 : cost(key, old));
    if (next > quota) {
      throw new DOMException(
        `${which}Storage is full: ${next} of ${quota} bytes. Nothing was changed.`,
        "QuotaExceededError",
      );
    }
    values.set(key, value);
    used = next;
    write({ t: "storage", which, op: "set", key, value });
  };
  const remove = (keyGiven: unknown) => {
    const key = wellFormed(String(keyGiven));
    const old = values.get(key);
    if (old === undefined) return;
    values.delete(key);
    used -= cost(key, old);
    write({ t: "storage", which, op: "remove", key });
  };
  const members: Record<string, unknown> = {
    getItem: (key: unknown) => values.get(wellFormed(String(key))) ?? null,
    setItem: set,
    removeItem: remove,
    clear() {
      if (!values.size) return;
      values.clear();
      used = 0;
      write({ t: "storage", which, op: "clear" });
    },
    key: (index: unknown) => [...values.keys()][Number(index) >>> 0] ?? null,
  };
  const own = (name: string | symbol): name is string => typeof name === "string" && values.has(name);
  const reserved = (name: string | symbol) => name === "length" || Object.hasOwn(members, name) || name in prototype;

  return new Proxy(Object.create(prototype), {
    get(target, name) {
      if (name === "length") return values.size;
      if (Object.hasOwn(members, name)) return members[name as string];
      if (name in prototype || typeof name === "symbol") return Reflect.get(target, name);
      return values.get(name);
    },
    set(target, name, value) {
      if (typeof name === "symbol") return Reflect.set(target, name, value);
      // As on the platform: a stored key may be called like a method, and then only `getItem` reads it.
      set(name, value);
      return true;
    },
    deleteProperty(target, name) {
      if (typeof name === "symbol") return Reflect.deleteProperty(target, name);
      remove(name);
      return true;
    },
    has: (target, name) => reserved(name) || own(name) || Reflect.has(target, name),
    ownKeys: (target) => [...values.keys(), ...Reflect.ownKeys(target).filter((key) => typeof key === "symbol")],
    getOwnPropertyDescriptor(target, name) {
      if (!own(name)) return Reflect.getOwnPropertyDescriptor(target, name);
      return { value: values.get(name), writable: true, enumerable: true, configurable: true };
    },
    defineProperty(target, name, descriptor) {
      if (typeof name === "symbol") return Reflect.defineProperty(target, name, descriptor);
      if (!("value" in descriptor)) return false;
      set(name, descriptor.value);
      return true;
    },
    preventExtensions: () => false,
  }) as Storage;
}

function cost(key: string, value: string): number {
  return (key.length + value.length) * 2;
}
