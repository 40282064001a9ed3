// TextEncoder and TextDecoder. Guest code, evaluated when one of its globals is first read in a context; see web.rs.
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

const tag = (holder, name) => Object.defineProperty(holder.prototype, Symbol.toStringTag, { value: name, configurable: true });

// Methods of browsers' classes can be listed.
const listed = (holder, ...names) => {
  for (const name of names) Object.defineProperty(holder.prototype, name, { enumerable: true });
};

export default ({ native }) => {
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
