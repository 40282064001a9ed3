// structuredClone. Guest code, evaluated when one of its globals is first read in a context; see web.rs.
// Like the errors of a browser, as far as their `name` goes.
const named = (name, message) => Object.defineProperty(new Error(message), "name", { value: name, configurable: true, writable: true });

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

export default () => ({ structuredClone });
