// Runs in every fresh context before the plugin's own code, and builds the `host` object its exports receive.
// Everything here is guest code: it makes the interface pleasant and guards nothing. The engine checks each call anew
// on the worker's own socket. What few plugins use is made when it is first touched: this runs before every call.
(() => {
  "use strict";
  const sandbox = globalThis.__sandbox;
  const { call, callNow, log } = sandbox;
  const text = (value) => {
    if (typeof value === "string") return value;
    try {
      return value instanceof Error ? `${value}\n${value.stack ?? ""}` : JSON.stringify(value) ?? String(value);
    } catch {
      return String(value);
    }
  };
  const line = (level) => (...parts) => log(level, parts.map(text).join(" "));

  globalThis.console = {
    log: line("info"),
    info: line("info"),
    debug: line("debug"),
    trace: line("debug"),
    warn: line("warn"),
    error: line("error"),
  };

  // Bytes travel as base64.
  const toBytes = (base64) => sandbox.native.base64Decode(base64);
  const toWire = (value) => (typeof value === "string" ? { text: value } : { base64: sandbox.native.base64Encode(asBytes(value)) });
  const asBytes = (value) => {
    if (value instanceof Uint8Array) return value;
    if (value instanceof ArrayBuffer) return new Uint8Array(value);
    if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
    throw new TypeError("give a string, a Uint8Array or an ArrayBuffer");
  };
  const now = (method) => (...args) => callNow(method, args);
  // An async iterator over `next()`, which gives undefined at the end.
  const iterate = (next, close) => ({
    [Symbol.asyncIterator]() {
      return {
        async next() {
          const value = await next();
          return value === undefined ? { done: true, value } : { done: false, value };
        },
        async return(value) {
          await close?.();
          return { done: true, value };
        },
      };
    },
  });
  const chunks = (method, name, bytes) => {
    let at = 0;
    return iterate(async () => {
      const chunk = toBytes(await call(method, [name, at, bytes ?? 262144]));
      at += chunk.length;
      return chunk.length ? chunk : undefined;
    });
  };

  // A number is as good a key as its text, as it is of any object.
  const named = (key) => (typeof key === "number" ? `${key}` : key);

  const makeLlm = (data) => {
    const stream = (request, options) => {
      const opened = call("llm.open", [request, options]);
      opened.catch(() => {});
      let ended;
      const pull = async () => {
        if (ended) return;
        const next = await call("llm.next", [await opened]);
        if (next.result === undefined) return next;
        ended = next.result;
      };
      return {
        ...iterate(pull),
        // The whole result; reads what is left of the stream first.
        get result() {
          return (async () => {
            while (await pull());
            return ended;
          })();
        },
        abort: async () => call("llm.abort", [await opened]),
      };
    };
    return {
      // Two-phase form: queue now, read `results[key]` in the next pass.
      request: (key, request) => void callNow("llm.request", [named(key), request]),
      results: data?.results ?? {},
      embedResults: data?.embedResults ?? {},
      // Awaited form.
      generate: (request, options) => {
        const opened = call("llm.open", [request, options]);
        const whole = opened.then((id) => call("llm.rest", [id]));
        whole.abort = async () => call("llm.abort", [await opened]);
        return whole;
      },
      stream,
      // With a key the queued form, without one the awaited form.
      embed: (key, request) =>
        typeof named(key) === "string" ? void callNow("llm.embed", [named(key), request]) : call("llm.embed", [key]),
    };
  };

  const makeStore = () => {
    const get = (key) => callNow("store.get", [named(key)]);
    const cas = (key, expected, value) =>
      call("store.cas", [named(key), expected ?? null, ...(value === undefined ? [] : [value])]);
    return {
      get,
      put: (key, value) => void callNow("store.put", [named(key), value === undefined ? null : value]),
      delete: (key) => callNow("store.delete", [named(key)]),
      keys: (prefix = "") => callNow("store.keys", [prefix]),
      // Writes `value` (undefined: deletes) if what is there still equals `expected` (null: nothing). Gives whether.
      cas,
      async update(key, change) {
        for (let tries = 0; tries < 100; tries++) {
          const before = get(key);
          const seen = JSON.stringify(before);
          const after = await change(before);
          if (after === undefined) throw new TypeError("host.store.update: the function must return the new value");
          if (await cas(key, JSON.parse(seen), after)) return after;
        }
        throw new Error(`host.store.update: "${key}" changed 100 times while it was being updated`);
      },
      scan: (options) => call("store.scan", [options ?? {}]),
      batch: async (writes) => void (await call("store.batch", [writes])),
      // Writes of `work` are kept all together at its end, or not at all.
      async transaction(work) {
        const writes = [];
        const mine = new Map();
        const result = await work({
          get: (key) => (mine.has(named(key)) ? JSON.parse(mine.get(named(key))) : get(key)),
          put(at, value) {
            const key = named(at);
            const json = JSON.stringify(value === undefined ? null : value) ?? "null";
            mine.set(key, json);
            writes.push({ put: key, value: JSON.parse(json) });
          },
          delete(at) {
            const key = named(at);
            mine.set(key, "null");
            writes.push({ delete: key });
          },
        });
        if (writes.length) await call("store.batch", [writes]);
        return result;
      },
    };
  };

  const makeFs = () => {
    const fs = {
      read: now("fs.read"),
      readBase64: now("fs.readBase64"),
      readBytes: (path) => toBytes(callNow("fs.readBase64", [path])),
      readChunk: (path, offset, length) => toBytes(callNow("fs.readChunk", [path, offset, length])),
      write: (path, value) => void callNow("fs.write", [path, value]),
      writeBytes: (path, bytes) => void callNow("fs.writeBase64", [path, sandbox.native.base64Encode(asBytes(bytes))]),
      append: (path, value) => void callNow("fs.append", [path, toWire(value)]),
      mkdir: (path) => void callNow("fs.mkdir", [path]),
      list: (path = ".") => callNow("fs.list", [path]),
      remove: (path) => void callNow("fs.remove", [path]),
      rename: (from, to) => void callNow("fs.rename", [from, to]),
      stat: now("fs.stat"),
      exists: now("fs.exists"),
      lookup: (...args) => callNow("fs.lookup", args[2] === undefined ? args.slice(0, 2) : args),
      media: now("fs.media"),
      // Chunks of a large file as Uint8Array.
      stream: (path, { chunkBytes } = {}) => chunks("fs.readChunk", path, chunkBytes),
      // Writes a large file piece by piece; nothing is there before `close`.
      writer(path) {
        const opened = call("fs.upload", [path]);
        opened.catch(() => {});
        return {
          write: async (chunk) => void (await call("fs.uploadWrite", [await opened, toWire(chunk)])),
          close: async () => void (await call("fs.uploadClose", [await opened])),
          abort: async () => void (await call("fs.uploadAbort", [await opened])),
        };
      },
      // What `work` does to files stays at its end, or is undone when it throws.
      async transaction(work) {
        await call("fs.begin", []);
        let result;
        try {
          result = await work(fs);
        } catch (error) {
          await call("fs.rollback", []);
          throw error;
        }
        await call("fs.commit", []);
        return result;
      },
    };
    return fs;
  };

  const makeZip = () => ({
    list: now("zip.list"),
    entries: now("zip.entries"),
    image: now("zip.image"),
    names: now("zip.names"),
    stat: now("zip.stat"),
    read: now("zip.read"),
    readBytes: (name) => toBytes(callNow("zip.readBase64", [name])),
    readChunk: (name, offset, length) => toBytes(callNow("zip.readChunk", [name, offset, length])),
    stream: (name, { chunkBytes } = {}) => chunks("zip.readChunk", name, chunkBytes),
  });

  const makeNet = (data) => {
    let tickets = 0;
    return {
      request: (key, spec) => void callNow("net.request", [named(key), spec]),
      results: data.netResults ?? {},
      fetch(spec) {
        const ticket = ++tickets;
        const answer = call(spec?.stream ? "net.open" : "net.fetch", [spec, ticket]).then((result) => {
          if (!spec?.stream || !result.ok && result.error) return result;
          const { id, ...head } = result;
          const next = async () => {
            const part = await call("net.next", [id]);
            return part.base64 === undefined ? part.text : toBytes(part.base64);
          };
          return { ...head, body: iterate(next, () => call("net.close", [id])) };
        });
        answer.abort = () => void call("net.abort", [ticket]).catch(() => {});
        return answer;
      },
    };
  };

  globalThis.__makeHost = (data) => {
    // Each room becomes an ordinary property when it is first looked at, or set.
    const keep = (name, value) => {
      Object.defineProperty(host, name, { value, writable: true, enumerable: true, configurable: true });
      return value;
    };
    const permissions = data?.permissions ?? {};
    const host = {
      log: line("info"),
      sleep: (ms) => call("sleep", [ms]),
      get store() {
        return keep("store", makeStore());
      },
      set store(value) {
        keep("store", value);
      },
      get llm() {
        return keep("llm", makeLlm(data));
      },
      set llm(value) {
        keep("llm", value);
      },
      get fs() {
        return keep("fs", makeFs());
      },
      set fs(value) {
        keep("fs", value);
      },
      get zip() {
        return keep("zip", makeZip());
      },
      set zip(value) {
        keep("zip", value);
      },
      // Plugins ask `if (host.net)`.
      get net() {
        return keep("net", permissions.network || permissions["local-network"] ? makeNet(data) : undefined);
      },
      set net(value) {
        keep("net", value);
      },
      siblingTools: data?.siblingTools ?? [],
      permissions,
      app: data?.app,
      plugin: data?.plugin,
    };
    return host;
  };
})();
