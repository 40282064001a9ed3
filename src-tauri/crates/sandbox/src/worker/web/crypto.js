// crypto. Guest code, evaluated when one of its globals is first read in a context; see web.rs.
// Like the errors of a browser, as far as their `name` goes.
const named = (name, message) => Object.defineProperty(new Error(message), "name", { value: name, configurable: true, writable: true });

const tag = (holder, name) => Object.defineProperty(holder.prototype, Symbol.toStringTag, { value: name, configurable: true });

// Methods of browsers' classes can be listed.
const listed = (holder, ...names) => {
  for (const name of names) Object.defineProperty(holder.prototype, name, { enumerable: true });
};

export default ({ native }) => {
  class Crypto {
    getRandomValues(array) {
      const whole = ArrayBuffer.isView(array) && !(array instanceof DataView) && !/^(Big)?Float/.test(array[Symbol.toStringTag]);
      if (!whole) throw named("TypeMismatchError", "getRandomValues needs a typed array of whole numbers");
      if (array.byteLength > 65536) throw named("QuotaExceededError", "getRandomValues fills up to 65536 bytes at once");
      native.random(new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
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
  return { crypto: new Crypto() };
};
