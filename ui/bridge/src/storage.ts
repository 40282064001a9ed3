// biome-ignore-all lint/suspicious/noShadowRestrictedNames: the natives stand in for the globals on purpose.
import { type Fetch, fitsOneMessage } from "./fetch";
import { console, DOMException, Map, stringify, wellFormed } from "./natives";
import type { Exchange, Out } from "./wire";

type Which = "local" | "session";

/**
 * Sends writes to the engine in the order in which they were made. One that is too big for a message goes as a request
 * with a body in pieces, and the ones after it wait for it.
 */
export class StorageWrites {
  #waiting: Out[] | undefined;

  constructor(
    private readonly exchange: Exchange,
    private readonly fetch: Fetch,
    private readonly app: string,
    private readonly failed: (which: string, key: string, message: string) => void,
  ) {
    exchange.on("storage-error", (m) => failed(String(m.which), String(m.key ?? ""), String(m.message)));
  }

  write(message: Out) {
    if (this.#waiting) this.#waiting.push(message);
    else if (fitsOneMessage(message)) this.exchange.send(message);
    else {
      this.#waiting = [];
      void this.#big(message);
    }
  }

  async #big({ which, op, key, value }: Out) {
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
    const waiting = this.#waiting ?? [];
    this.#waiting = undefined;
    for (const message of waiting) this.write(message);
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
