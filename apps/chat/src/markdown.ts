// What a model writes is foreign text: it is shown, never run, and nothing in it may load anything or send anything
// anywhere. Raw HTML is shown as text; pictures are shown as their description; what is left goes through DOMPurify
// with a list of what may stay, and the page's own policy is the wall behind that.

import createDOMPurify, { type Config, type DOMPurify, type WindowLike } from "dompurify";
import { Lexer, Marked, type Token } from "marked";

const TAGS =
  "p br hr h1 h2 h3 h4 h5 h6 strong em del code pre blockquote ul ol li a table thead tbody tr th td".split(" ");

const ALLOW: Config & { RETURN_DOM_FRAGMENT: true } = {
  ALLOWED_TAGS: [...TAGS, "#text"],
  ALLOWED_ATTR: ["href", "class", "start", "align"],
  ALLOWED_URI_REGEXP: /^https?:\/\//i,
  // Not addresses; their values are checked below.
  ADD_URI_SAFE_ATTR: ["start", "align"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  ALLOW_SELF_CLOSE_IN_ATTR: false,
  ALLOWED_NAMESPACES: ["http://www.w3.org/1999/xhtml"],
  RETURN_DOM_FRAGMENT: true,
};

const LANGUAGE = /^language-[a-z0-9+#.-]{1,24}$/;

function escaped(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;")
    .replaceAll("'", "&#39;");
}

function hostOf(href: string): string {
  try {
    const url = new URL(href);
    return url.protocol === "http:" || url.protocol === "https:" ? url.host : url.protocol.slice(0, -1);
  } catch {
    return "";
  }
}

const marked = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    html: ({ text }) => escaped(text),
    image({ href, text }) {
      const from = hostOf(href);
      return escaped(`[Picture not loaded${text ? `: ${text}` : ""}${from ? ` (${from})` : ""}]`);
    },
    code({ text, lang }) {
      const name = (lang ?? "").trim().split(/\s+/, 1)[0]?.toLowerCase() ?? "";
      const language = LANGUAGE.test(`language-${name}`) ? ` class="language-${name}"` : "";
      return `<pre><code${language}>${escaped(text)}\n</code></pre>`;
    },
    link({ href, tokens }) {
      const inside = this.parser.parseInline(tokens);
      return /^https?:\/\//i.test(href) ? `<a href="${escaped(href)}">${inside}</a>` : inside;
    },
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  },
});

export class Markdown {
  readonly #purify: DOMPurify;

  constructor(window: WindowLike) {
    this.#purify = createDOMPurify(window);
    this.#purify.addHook("afterSanitizeAttributes", (node) => {
      const name = node.nodeName;
      const code = node.getAttribute("class");
      if (code !== null && !(name === "CODE" && LANGUAGE.test(code))) node.removeAttribute("class");
      const align = node.getAttribute("align");
      if (align !== null && !(/^T[DH]$/.test(name) && /^(left|right|center)$/.test(align))) node.removeAttribute("align");
      const start = node.getAttribute("start");
      if (start !== null && !(name === "OL" && /^\d{1,9}$/.test(start))) node.removeAttribute("start");
      if (name !== "A") node.removeAttribute("href");
      else if (node.hasAttribute("href")) {
        node.setAttribute("target", "_blank");
        node.setAttribute("rel", "noopener noreferrer nofollow");
      }
    });
  }

  /** The HTML that `clean` is to make harmless. */
  html(token: Token): string {
    return marked.parser([token]);
  }

  /** Only tags and attributes of the list above, in a fragment that has never been part of a page. */
  clean(html: string): DocumentFragment {
    return this.#purify.sanitize(html, ALLOW) as unknown as DocumentFragment;
  }

  render(text: string): DocumentFragment {
    return this.clean(marked.parse(text, { async: false }));
  }
}

export interface Block {
  /** where it begins in the whole text */
  start: number;
  token: Token;
}

/**
 * Splits a growing text into blocks. All but the last few are final while text is only added, so only what follows them
 * is looked at again. (Four, since a list, the empty line after it and what seems to be a paragraph may turn out to be
 * one list.) References to links that are defined elsewhere in the text need a reading of the whole: `whole`.
 */
export class BlockReader {
  #settled: Block[] = [];
  #text = "";

  /** All blocks, and how many of them are the very objects of the time before. */
  read(text: string, whole = false): { blocks: Block[]; settled: number } {
    if (whole || !text.startsWith(this.#text)) this.#settled = [];
    this.#text = text;
    const before = this.#settled.length;
    const last = this.#settled.at(-1);
    const from = last ? last.start + last.token.raw.length : 0;
    const fresh: Block[] = [];
    let at = from;
    for (const token of new Lexer(marked.defaults).lex(text.slice(from))) {
      fresh.push({ start: at, token });
      at += token.raw.length;
    }
    const blocks = [...this.#settled, ...fresh];
    // marked normalises line ends; then positions in the text and lengths of tokens differ and nothing is settled.
    if (at === text.length && fresh.length > 4) this.#settled = blocks.slice(0, -4);
    return { blocks, settled: before };
  }
}
