import { AnswerView } from "./answer";
import type { Message } from "./api";
import { copyButton, h, icon } from "./dom";
import { T } from "./text";

export interface MessageActions {
  retry(): void;
  modelLabel(ref: string): { label: string; canned: boolean };
}

/** One message. `update` may be called as often as a frame; it touches only what differs. */
export class MessageView {
  readonly element: HTMLElement;
  #message: Message;
  #answer: AnswerView | null = null;
  #thinking: { box: HTMLDetailsElement; text: Text } | null = null;
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
    this.#waiting = h("p", { class: "waiting", hidden: true }, h("span", { class: "dot" }), T.waiting);
    this.#model = h("span", { class: "model" });
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
      ...(mine ? [] : [this.#retry, this.#model]),
    );
    this.element = h(
      "article",
      { class: mine ? "message mine" : "message", "aria-label": mine ? T.you : T.assistant },
      this.#waiting,
      this.#body,
      this.#note,
      this.#actions,
    );
    this.update(message, false);
  }

  update(message: Message, last: boolean) {
    this.#message = message;
    const pending = message.state === "pending";
    if (message.role === "user") this.#body.textContent = message.text;
    else {
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
  }

  #showThinking(message: Message, pending: boolean) {
    if (!message.thinking) return;
    if (!this.#thinking) {
      const text = document.createTextNode("");
      const box = h("details", { class: "thinking" }, h("summary", {}, T.thinking), h("div", {}, text));
      this.#thinking = { box, text };
      this.#body.prepend(box);
    }
    if (this.#thinking.text.data !== message.thinking) this.#thinking.text.data = message.thinking;
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
