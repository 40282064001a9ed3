import type { Fetch } from "./fetch";
import { DOMException, Event, EventTarget, forget, later } from "./natives";

const EVENTS = ["readystatechange", "loadstart", "progress", "load", "abort", "error", "timeout", "loadend"];

/** `XMLHttpRequest` over the bridged fetch, for libraries that know nothing else. Asynchronous only. */
export function makeXhr(fetch: Fetch) {
  class BridgedXhr extends EventTarget {
    readyState = 0;
    status = 0;
    statusText = "";
    responseURL = "";
    response: unknown = "";
    responseType: XMLHttpRequestResponseType = "";
    timeout = 0;
    withCredentials = false;
    readonly upload = new EventTarget();
    #method = "GET";
    #url = "";
    #sent: [string, string][] = [];
    #received: Headers | undefined;
    #abort: AbortController | undefined;

    constructor() {
      super();
      for (const type of EVENTS) {
        this.addEventListener(type, (event) => {
          const handler = (this as unknown as Record<string, unknown>)[`on${type}`];
          if (typeof handler === "function") handler.call(this, event);
        });
      }
    }

    open(method: string, url: string | URL, async = true) {
      if (!async) throw new DOMException("Synchronous requests are not possible here.", "InvalidAccessError");
      this.#abort?.abort();
      this.#abort = undefined;
      this.#method = method;
      this.#url = String(url);
      this.#sent = [];
      this.#received = undefined;
      this.status = 0;
      this.response = "";
      this.#state(1);
    }

    setRequestHeader(name: string, value: string) {
      if (this.readyState !== 1) throw new DOMException("Not open.", "InvalidStateError");
      this.#sent.push([name, value]);
    }

    send(body: BodyInit | null = null) {
      if (this.readyState !== 1 || this.#abort) throw new DOMException("Not open.", "InvalidStateError");
      const abort = new AbortController();
      this.#abort = abort;
      void this.#run(abort, /^(get|head)$/i.test(this.#method) ? null : body);
    }

    abort() {
      const running = this.#abort;
      this.#abort = undefined;
      running?.abort();
      if (running && this.readyState < 4) this.#finish("abort");
      this.readyState = 0;
    }

    getResponseHeader(name: string) {
      return this.#received?.get(name) ?? null;
    }

    getAllResponseHeaders() {
      return [...(this.#received ?? [])].map(([name, value]) => `${name}: ${value}\r\n`).join("");
    }

    overrideMimeType() {}

    get responseText() {
      if (this.responseType !== "" && this.responseType !== "text") {
        throw new DOMException(`responseType is "${this.responseType}".`, "InvalidStateError");
      }
      return this.response;
    }

    get responseXML() {
      return null;
    }

    async #run(abort: AbortController, body: BodyInit | null) {
      let late = false;
      const timer = this.timeout
        ? later(() => {
            late = true;
            abort.abort();
          }, this.timeout)
        : undefined;
      const current = () => this.#abort === abort;
      try {
        this.dispatchEvent(new Event("loadstart"));
        const options = { method: this.#method, headers: this.#sent, body, signal: abort.signal };
        const response = await fetch(this.#url, options);
        if (!current()) return;
        this.status = response.status;
        this.statusText = response.statusText;
        this.responseURL = response.url;
        this.#received = response.headers;
        this.#state(2);
        const content = await this.#read(response, current);
        if (!current()) return;
        this.response = content;
        this.#finish("load");
      } catch {
        if (!current()) return;
        this.status = 0;
        this.#finish(late ? "timeout" : "error");
      } finally {
        if (timer !== undefined) forget(timer);
      }
    }

    async #read(response: Response, current: () => boolean): Promise<unknown> {
      if (this.responseType === "arraybuffer") return response.arrayBuffer();
      if (this.responseType === "blob") return response.blob();
      if (this.responseType === "json") return response.json().catch(() => null);
      if (!response.body) return "";
      const reader = response.body.getReader();
      const decoder = new TextDecoder();
      let text = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done || !current()) return text + decoder.decode();
        text += decoder.decode(value, { stream: true });
        this.response = text;
        this.#state(3);
        this.dispatchEvent(new Event("progress"));
      }
    }

    #state(state: number) {
      this.readyState = state;
      this.dispatchEvent(new Event("readystatechange"));
    }

    #finish(type: string) {
      this.#abort = undefined;
      this.#state(4);
      this.dispatchEvent(new Event(type));
      this.dispatchEvent(new Event("loadend"));
    }
  }
  const states = { UNSENT: 0, OPENED: 1, HEADERS_RECEIVED: 2, LOADING: 3, DONE: 4 };
  for (const [name, value] of Object.entries(states)) {
    Object.defineProperty(BridgedXhr, name, { value, enumerable: true });
    Object.defineProperty(BridgedXhr.prototype, name, { value, enumerable: true });
  }
  return BridgedXhr;
}
