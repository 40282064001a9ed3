import { AnswerView } from "./answer";
import type { Message } from "./api";
import { copyButton, h, icon } from "./dom";
import type { Wait } from "./stream";
import { T } from "./text";

export interface MessageActions {
  retry(): void;
  /** Asks an earlier question anew; resolves once it is taken, or not. */
  edit(message: Message, text: string): Promise<boolean>;
  modelLabel(ref: string): { label: string; canned: boolean };
}

/** One message. `update` may be called as often as a frame; it touches only what differs. */
export class MessageView {
  readonly element: HTMLElement;
  #message: Message;
  #answer: AnswerView | null = null;
  #thinking: { box: HTMLDetailsElement; head: HTMLElement; text: Text } | null = null;
  #images = h("div", { class: "images", hidden: true });
  #wait: Wait | null = null;
  #ticking = 0;
  #waitingText = h("span", {}, T.waiting);
  #cost: HTMLElement;
  #editing = false;
  #body: HTMLElement;
  #note: HTMLElement;
  #waiting: HTMLElement;
  #actions: HTMLElement;
  #retry: HTMLButtonElement;
  #model: HTMLElement;

  constructor(
    message: Message,
    private readonly actions: MessageActions,
  ) {
    this.#message = message;
    const mine = message.role === "user";
    this.#body = h("div", { class: "body" });
    this.#note = h("p", { class: "note", hidden: true });
    this.#waiting = h("p", { class: "waiting", hidden: true }, h("span", { class: "dot" }), this.#waitingText);
    this.#model = h("span", { class: "model" });
    this.#cost = h("span", { class: "model cost" });
    this.#retry = h(
      "button",
      { type: "button", class: "quiet", title: T.retryKeys, click: () => this.actions.retry() },
      icon("retry"),
      h("span", {}, T.retry),
    );
    this.#actions = h(
      "div",
      { class: "actions" },
      copyButton(T.copy, T.copied, T.copyFailed, () => this.#message.text),
      ...(mine ? [this.#editButton()] : [this.#retry, this.#model, this.#cost]),
    );
    this.element = h(
      "article",
      { class: mine ? "message mine" : "message", "aria-label": mine ? T.you : T.assistant },
      this.#waiting,
      this.#images,
      this.#body,
      this.#note,
      this.#actions,
    );
    this.update(message, false);
  }

  update(message: Message, last: boolean) {
    this.#message = message;
    const pending = message.state === "pending";
    if (message.role === "user") {
      if (!this.#editing) this.#body.textContent = message.text;
      this.#body.hidden = message.text === "" && !this.#editing;
      this.#showImages(message.images ?? []);
    } else {
      this.#showThinking(message, pending);
      this.#answer ??= new AnswerView();
      if (!this.#answer.element.isConnected) this.#body.append(this.#answer.element);
      this.#answer.show(message.text, !pending);
    }
    this.element.setAttribute("aria-busy", String(pending));
    this.element.classList.toggle("pending", pending);
    this.#waiting.hidden = !(pending && message.text === "" && !message.thinking);
    // The row keeps its place while the answer streams, so that nothing jumps when it ends.
    this.#actions.classList.toggle("off", pending);
    for (const button of this.#actions.querySelectorAll("button")) button.disabled = pending;
    this.#retry.hidden = !last;
    const note = noteOf(message);
    this.#note.hidden = note === "";
    if (this.#note.textContent !== note) this.#note.textContent = note;
    this.#note.classList.toggle("bad", message.state === "error" || message.unsaved !== undefined);
    this.#showModel(message);
    this.#showCost(message);
    if (!pending) this.wait(null);
  }

  /** A pause before the request is sent again, counted down. */
  wait(wait: Wait | null) {
    clearTimeout(this.#ticking);
    this.#wait = wait;
    const left = wait ? Math.ceil((wait.until - Date.now()) / 1000) : 0;
    const text = wait && left > 0 ? T.askAgainIn(left, wait.reason) : T.waiting;
    if (this.#waitingText.textContent !== text) this.#waitingText.textContent = text;
    if (left > 0) this.#ticking = window.setTimeout(() => this.wait(this.#wait), 1000);
  }

  #showImages(images: string[]) {
    this.#images.hidden = images.length === 0;
    if (this.#images.childElementCount === images.length) return;
    this.#images.replaceChildren(...images.map((src, i) => h("img", { src, alt: T.picture(i + 1), loading: "lazy" })));
  }

  #showCost(message: Message) {
    const { usage } = message;
    const text = usage ? (usage.cost === null ? T.noPrice : T.cost(usage.cost)) : "";
    if (this.#cost.textContent !== text) this.#cost.textContent = text;
    this.#cost.title = usage ? T.tokens(usage.tokensIn, usage.tokensOut) : "";
  }

  #editButton(): HTMLButtonElement {
    const button = h("button", { type: "button", class: "quiet", title: T.editTitle }, icon("pencil"), h("span", {}, T.edit));
    button.addEventListener("click", () => this.#edit(button));
    return button;
  }

  #edit(button: HTMLButtonElement) {
    if (this.#editing) return;
    this.#editing = true;
    const field = h("textarea", { class: "edit-field", "aria-label": T.editField, rows: "3" });
    field.value = this.#message.text;
    const send = h("button", { type: "submit", class: "primary" }, T.editSend);
    const cancel = h("button", { type: "button", class: "quiet" }, T.cancel);
    const form = h("form", { class: "edit" }, field, h("div", { class: "edit-actions" }, cancel, send));
    const close = () => {
      this.#editing = false;
      form.replaceWith(this.#body);
      this.#actions.hidden = false;
      this.update(this.#message, false);
      button.focus();
    };
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (field.value.trim() === "" && !this.#message.images?.length) return;
      send.disabled = true;
      const taken = await this.actions.edit(this.#message, field.value);
      send.disabled = false;
      if (taken) close();
    });
    cancel.addEventListener("click", close);
    field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.stopPropagation();
        close();
      } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
    });
    this.#body.replaceWith(form);
    this.#actions.hidden = true;
    field.focus();
    field.setSelectionRange(field.value.length, field.value.length);
  }

  #showThinking(message: Message, pending: boolean) {
    if (!message.thinking) return;
    if (!this.#thinking) {
      const text = document.createTextNode("");
      const head = h("summary", {}, T.thinking);
      const box = h("details", { class: "thinking" }, head, h("div", {}, text));
      box.open = readOpen();
      head.addEventListener("click", () => keepOpen(!box.open));
      this.#thinking = { box, head, text };
      this.#body.prepend(box);
    }
    if (this.#thinking.text.data !== message.thinking) this.#thinking.text.data = message.thinking;
    const title = !pending && message.thoughtMs ? T.thoughtFor(message.thoughtMs / 1000) : T.thinking;
    if (this.#thinking.head.textContent !== title) this.#thinking.head.textContent = title;
    this.#thinking.box.classList.toggle("running", pending && message.text === "");
  }

  #showModel(message: Message) {
    if (!message.model) return this.#model.replaceChildren();
    const { label, canned } = this.actions.modelLabel(message.model);
    const text = canned ? T.modelCanned(label) : label;
    if (this.#model.textContent !== text) this.#model.textContent = text;
    this.#model.title = canned ? T.cannedTitle : "";
  }
}

const OPEN = "chat.thinking";

/** Whether thinking is shown unfolded: as it was left the last time. */
function readOpen(): boolean {
  try {
    return localStorage.getItem(OPEN) === "open";
  } catch {
    return false;
  }
}

function keepOpen(open: boolean) {
  try {
    localStorage.setItem(OPEN, open ? "open" : "folded");
  } catch {
    // Only a convenience.
  }
}

function noteOf(message: Message): string {
  const empty = message.text === "";
  if (message.unsaved) return T.unsaved(message.unsaved);
  if (message.state === "stopped") return empty ? T.stoppedEmpty : T.stopped;
  if (message.state === "interrupted") return empty ? T.interruptedEmpty : T.interrupted;
  if (message.state === "error") {
    const why = /[.!?…]$/.test(message.error ?? "") ? (message.error ?? "") : `${message.error ?? "no reason given"}.`;
    return empty ? T.failed(why) : T.failedKept(why);
  }
  return message.retryFailed ? T.retryFailed(message.retryFailed.replace(/\.$/, "")) : "";
}
