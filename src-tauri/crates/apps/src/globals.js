// Puts up the globals that plugins get beyond the language. Runs in every fresh context, in front of prelude.js in one
// module. Each is made when it is first read, because making them takes longer than most calls do; the code is the
// worker's (`web` in the sandbox crate), and so is what it leans on. `console` is prelude.js'.
{
  const sandbox = globalThis.__sandbox;
  const { defineProperty } = Object;
  for (const name of [
    "TextDecoder", "TextEncoder", "URL", "URLSearchParams", "crypto", "structuredClone", "setTimeout", "clearTimeout",
    "setInterval", "clearInterval", "process", "Buffer",
  ]) {
    const put = (value) => {
      defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
      return value;
    };
    defineProperty(globalThis, name, {
      get: () => put(sandbox.web(name)),
      set: put,
      configurable: true,
      enumerable: false,
    });
  }
  // prelude.js gives it its value; what is put in its place stays as hidden from `for … in` as the others.
  defineProperty(globalThis, "console", { value: undefined, writable: true, configurable: true, enumerable: false });
  // The engine's own extras. (`atob` and `btoa`, which it has too, stay.)
  delete globalThis.DOMException;
  delete globalThis.performance;
  delete globalThis.queueMicrotask;
}
