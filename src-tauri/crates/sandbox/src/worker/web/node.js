// What there is of Node: Buffer and process. Guest code, evaluated when one of its globals is first read in a context; see web.rs.
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

export default ({ native }) => ({ Buffer: buffers(native), process: inertProcess() });
