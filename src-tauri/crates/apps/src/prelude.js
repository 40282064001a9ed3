// Runs in every fresh context before the plugin's own code, and builds the `host` object its exports receive.
// Everything here is guest code: it makes the interface pleasant and guards nothing. The engine checks each call anew
// on the worker's own socket.
(() => {
  "use strict";
  const { call, callNow, log } = globalThis.__sandbox;
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

  const stream = (request) => {
    const opened = call("llm.open", [request]);
    opened.catch(() => {});
    let ended;
    const pull = async () => {
      if (ended) return { done: true, value: undefined };
      const next = await call("llm.next", [await opened]);
      if (next.result === undefined) return { done: false, value: next };
      ended = next.result;
      return { done: true, value: undefined };
    };
    return {
      [Symbol.asyncIterator]() {
        return { next: pull, return: async () => ({ done: true, value: undefined }) };
      },
      // The whole result; reads what is left of the stream first.
      get result() {
        return (async () => {
          while (!(await pull()).done);
          return ended;
        })();
      },
      async abort() {
        return call("llm.abort", [await opened]);
      },
    };
  };

  globalThis.__makeHost = (data) => ({
    log: line("info"),
    store: {
      get: (key) => callNow("store.get", [key]),
      put: (key, value) => void callNow("store.put", [key, value === undefined ? null : value]),
      delete: (key) => callNow("store.delete", [key]),
      keys: (prefix = "") => callNow("store.keys", [prefix]),
    },
    llm: {
      // Two-phase form: queue now, read `results[key]` in the next pass.
      request: (key, request) => void callNow("llm.request", [key, request]),
      results: data?.results ?? {},
      // Awaited form.
      generate: (request) => call("llm.generate", [request]),
      stream,
    },
  });
})();
