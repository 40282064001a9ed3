// URL and URLSearchParams. Guest code, evaluated when one of its globals is first read in a context; see web.rs.
const tag = (holder, name) => Object.defineProperty(holder.prototype, Symbol.toStringTag, { value: name, configurable: true });

// Methods of browsers' classes can be listed.
const listed = (holder, ...names) => {
  for (const name of names) Object.defineProperty(holder.prototype, name, { enumerable: true });
};

export default ({ native }) => {
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
