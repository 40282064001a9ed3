import type { Message } from "./api";
import { h, icon } from "./dom";
import { type MessageActions, MessageView } from "./message";
import type { Wait } from "./stream";
import { T } from "./text";

/** As many messages as are drawn at once; earlier ones come on demand. */
const DRAWN = 60;
/** Pixels from the end within which the reader counts as being at the end. */
const AT_END = 48;

/** The messages of one conversation. Follows the end only while the reader is there. */
export class Thread {
  readonly element: HTMLElement;
  readonly #inner = h("div", { class: "thread" });
  readonly #earlier: HTMLButtonElement;
  readonly #toEnd: HTMLButtonElement;
  readonly #welcome: HTMLElement;
  #messages: Message[] = [];
  #views = new Map<number, MessageView>();
  #first = 0;
  #last = -1;
  #atEnd = true;
  #dirty = new Set<number>();
  #frame = 0;

  constructor(private readonly actions: MessageActions) {
    this.#earlier = h("button", { type: "button", class: "quiet earlier", click: () => this.#drawEarlier() });
    this.#toEnd = h(
      "button",
      { type: "button", class: "to-end", hidden: true, click: () => this.toEnd() },
      icon("down"),
      h("span", {}, T.toEnd),
    );
    this.#welcome = h("div", { class: "welcome" }, h("h2", {}, T.welcome), h("p", {}, T.welcomeMore));
    this.element = h("main", { class: "scroller", tabindex: "-1" }, this.#inner, this.#toEnd);
    this.element.addEventListener("scroll", () => this.#look(), { passive: true });
    new ResizeObserver(() => this.#keepEnd()).observe(this.element);
  }

  show(messages: Message[]) {
    this.#messages = messages;
    this.#first = Math.max(0, messages.length - DRAWN);
    this.#views.clear();
    this.#dirty.clear();
    this.#draw();
    this.toEnd();
  }

  /** New or changed messages, by their number; the rest stays as it is. */
  merge(messages: Message[]) {
    const known = new Map(this.#messages.map((message) => [message.n, message]));
    this.#messages = messages;
    for (const message of messages) {
      if (known.get(message.n) !== message) this.#dirty.add(message.n);
    }
    const numbers = new Set(messages.map((message) => message.n));
    for (const [n, view] of this.#views) {
      if (numbers.has(n)) continue;
      view.element.remove();
      this.#views.delete(n);
    }
    this.#draw();
    this.#keepEnd();
  }

  /** A message that grows: drawn with the next frame, however often this is called. */
  grow(message: Message) {
    const at = this.#messages.findIndex((one) => one.n === message.n);
    if (at < 0) return;
    this.#messages[at] = message;
    this.#dirty.add(message.n);
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#refresh();
      this.#keepEnd();
    });
  }

  /** A pause before a message's request is sent again. */
  wait(n: number, wait: Wait | null) {
    this.#views.get(n)?.wait(wait);
  }

  toEnd() {
    this.#atEnd = true;
    this.element.scrollTop = this.element.scrollHeight;
    this.#toEnd.hidden = true;
  }

  #look() {
    const { scrollHeight, scrollTop, clientHeight } = this.element;
    this.#atEnd = scrollHeight - scrollTop - clientHeight < AT_END;
    this.#toEnd.hidden = this.#atEnd;
  }

  #keepEnd() {
    if (this.#atEnd) this.toEnd();
    else this.#look();
  }

  #draw() {
    const shown = this.#messages.slice(this.#first);
    this.#earlier.hidden = this.#first === 0;
    if (this.#first > 0) this.#earlier.textContent = T.earlier(this.#first);
    if (shown.length === 0) {
      this.#inner.replaceChildren(this.#welcome);
      return;
    }
    const wanted: Element[] = [this.#earlier];
    for (const message of shown) {
      let view = this.#views.get(message.n);
      if (!view) {
        view = new MessageView(message, this.actions);
        this.#views.set(message.n, view);
        this.#dirty.add(message.n);
      }
      wanted.push(view.element);
    }
    // Only what is new is moved: taking an element out and in again would lose its focus and selection.
    wanted.forEach((element, i) => {
      const there = this.#inner.children[i];
      if (there !== element) this.#inner.insertBefore(element, there ?? null);
    });
    while (this.#inner.children.length > wanted.length) this.#inner.lastElementChild?.remove();
    const last = this.#messages.at(-1)?.n ?? -1;
    if (last !== this.#last) {
      // Only the last message offers a retry.
      this.#dirty.add(this.#last).add(last);
      this.#last = last;
    }
    this.#refresh();
  }

  #refresh() {
    const last = this.#messages.at(-1);
    for (const message of this.#messages.slice(this.#first)) {
      if (this.#dirty.has(message.n)) this.#views.get(message.n)?.update(message, message === last);
    }
    this.#dirty.clear();
  }

  #drawEarlier() {
    const fromEnd = this.element.scrollHeight - this.element.scrollTop;
    this.#first = Math.max(0, this.#first - DRAWN);
    this.#draw();
    this.element.scrollTop = this.element.scrollHeight - fromEnd;
    if (this.#first === 0) this.#inner.querySelector<HTMLElement>("article button")?.focus({ preventScroll: true });
  }
}
