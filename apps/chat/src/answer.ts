import type { Tokens } from "marked";
import { copyButton, h } from "./dom";
import { type Block, BlockReader, Markdown } from "./markdown";
import { T } from "./text";

const markdown = new Markdown(window);

interface Shown {
  html: string;
  element: HTMLElement;
  /** a code block: its text can grow in place */
  code: Text | null;
  language: string;
}

/** Markdown on the page that grows at its end: blocks that stay the same keep their elements, selection and focus. */
export class AnswerView {
  readonly element = h("div", { class: "markdown" });
  #reader = new BlockReader();
  #shown: Shown[] = [];
  #text = "";

  /** `whole`: the text is complete, so that links defined anywhere in it are found everywhere. */
  show(text: string, whole = false) {
    if (text === this.#text && !whole) return;
    this.#text = text;
    const { blocks, settled } = this.#reader.read(text, whole);
    for (let i = settled; i < blocks.length; i++) this.#place(i, blocks[i] as Block);
    for (const gone of this.#shown.splice(blocks.length)) gone.element.remove();
  }

  #place(i: number, { token }: Block) {
    const old = this.#shown[i];
    const language = token.type === "code" ? ((token as Tokens.Code).lang ?? "") : "";
    if (old?.code && token.type === "code" && old.language === language) {
      const text = `${(token as Tokens.Code).text}\n`;
      if (old.code.data !== text) old.code.data = text;
      return;
    }
    const html = token.type === "space" || token.type === "def" ? "" : markdown.html(token);
    if (old && !old.code && old.html === html) return;
    const element = h("div", { class: "block" });
    element.append(markdown.clean(html));
    const next: Shown = { html, element, code: null, language };
    if (token.type === "code") next.code = dressed(element);
    else for (const pre of element.querySelectorAll("pre")) dress(pre);
    for (const table of element.querySelectorAll("table")) {
      const scroller = h("div", { class: "table", tabindex: "0", role: "group" });
      table.replaceWith(scroller);
      scroller.append(table);
    }
    if (old) old.element.replaceWith(element);
    else this.element.append(element);
    this.#shown[i] = next;
  }
}

function dressed(element: HTMLElement): Text | null {
  const pre = element.querySelector("pre");
  if (!pre) return null;
  const code = dress(pre);
  const text = document.createTextNode(code.textContent ?? "");
  code.replaceChildren(text);
  return text;
}

/** A heading with the language and a button around a code block. Returns the element that holds the code. */
function dress(pre: HTMLPreElement): HTMLElement {
  const code = pre.querySelector("code") ?? pre;
  const language = [...code.classList].find((name) => name.startsWith("language-"))?.slice("language-".length) ?? "";
  const copy = copyButton(T.copy, T.copied, T.copyFailed, () => (code.textContent ?? "").replace(/\n$/, ""));
  copy.setAttribute("aria-label", T.copyCode);
  const box = h("div", { class: "code" }, h("div", { class: "code-head" }, h("span", {}, language), copy));
  pre.replaceWith(box);
  pre.tabIndex = 0;
  box.append(pre);
  return code;
}
