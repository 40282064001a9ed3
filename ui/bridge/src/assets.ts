// In a browser `/v1/…` means the server's own root, which an app page cannot reach: its assets are served under the
// frame's address. Only used there; in an app window the app's scheme serves `/v1/` itself.

const ATTRIBUTES = ["src", "poster", "srcset", "style"];

/** `/v1/…` → `<base>/v1/…` in a plain address; anything else is given back as it is. */
export function mapAddress(value: string, base: string): string {
  return /^\s*\/v1\//.test(value) ? base + value.trim() : value;
}

export function mapSrcset(value: string, base: string): string {
  return value.replace(/(^|,)(\s*)\/v1\//g, `$1$2${base}/v1/`);
}

export function mapStyle(value: string, base: string): string {
  return value.replace(/(url\(\s*["']?|@import\s+["'])\/v1\//gi, `$1${base}/v1/`);
}

function mapAttribute(name: string, value: string, base: string): string {
  return name === "srcset"
    ? mapSrcset(value, base)
    : name === "style"
      ? mapStyle(value, base)
      : mapAddress(value, base);
}

export function mapAssets(win: Window & typeof globalThis, base: string) {
  const fix = (element: Element, name: string) => {
    const value = element.getAttribute(name);
    if (!value?.includes("/v1/")) return;
    const mapped = mapAttribute(name, value, base);
    if (mapped !== value) element.setAttribute(name, mapped);
  };
  const fixText = (style: Element) => {
    const text = style.textContent ?? "";
    if (!text.includes("/v1/")) return;
    const mapped = mapStyle(text, base);
    if (mapped !== text) style.textContent = mapped;
  };
  const fixAll = (node: Node) => {
    if (!(node instanceof win.Element)) {
      if (node.parentNode instanceof win.HTMLStyleElement) fixText(node.parentNode);
      return;
    }
    const elements = [node, ...node.querySelectorAll("[src],[poster],[srcset],[style],style")];
    for (const element of elements) {
      for (const name of ATTRIBUTES) fix(element, name);
      if (element instanceof win.HTMLStyleElement) fixText(element);
    }
  };

  new win.MutationObserver((records) => {
    for (const record of records) {
      if (record.type === "attributes") fix(record.target as Element, record.attributeName as string);
      else if (record.type === "characterData") fixAll(record.target);
      else for (const node of record.addedNodes) fixAll(node);
    }
  }).observe(win.document, {
    subtree: true,
    childList: true,
    characterData: true,
    attributes: true,
    attributeFilter: ATTRIBUTES,
  });

  // Elements outside the document load too (`new Image()`), and no observer sees them.
  const property = (prototype: object, name: string) => {
    const native = Object.getOwnPropertyDescriptor(prototype, name);
    const set = native?.set;
    if (!native || !set) return;
    Object.defineProperty(prototype, name, {
      ...native,
      set(value: unknown) {
        set.call(this, mapAttribute(name, String(value), base));
      },
    });
  };
  property(win.HTMLImageElement.prototype, "src");
  property(win.HTMLImageElement.prototype, "srcset");
  property(win.HTMLMediaElement.prototype, "src");
  property(win.HTMLSourceElement.prototype, "src");
  property(win.HTMLSourceElement.prototype, "srcset");
  property(win.HTMLVideoElement.prototype, "poster");
}
