import { h, icon } from "./dom";
import { Pictures } from "./pictures";
import { T } from "./text";

export interface ComposerActions {
  send(text: string, images: string[]): void;
  stop(): void;
}

const DRAFT = "chat.draft";

export class Composer {
  readonly element: HTMLFormElement;
  readonly #field = h("textarea", { rows: "1", placeholder: T.placeholder, "aria-label": T.placeholder });
  readonly #send = h("button", { type: "submit", class: "send", "aria-label": T.send, title: T.send }, icon("send"));
  readonly #stop = h(
    "button",
    { type: "button", class: "send", "aria-label": T.stop, title: T.stopKeys, hidden: true },
    icon("stop"),
  );
  readonly #problem = h("p", { class: "note bad", role: "alert", hidden: true });
  readonly #pictures = new Pictures(
    () => this.#changed(),
    (text) => this.problem(text),
  );
  #busy = false;
  #draft = 0;

  constructor(
    private readonly actions: ComposerActions,
    picker: HTMLElement,
  ) {
    this.element = h(
      "form",
      { class: "composer" },
      this.#problem,
      this.#pictures.element,
      h("div", { class: "field" }, this.#pictures.button, this.#field, this.#send, this.#stop),
      h("div", { class: "under" }, picker, h("span", { class: "keys" }, T.keys)),
    );
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    this.#stop.addEventListener("click", () => this.actions.stop());
    this.#field.addEventListener("keydown", (event) => {
      // 229: some input methods report the Enter that ends a composition after it has ended.
      if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
      event.preventDefault();
      this.#submit();
    });
    this.#field.addEventListener("input", () => this.#changed());
    this.#field.addEventListener("paste", (event) => {
      const files = [...(event.clipboardData?.files ?? [])];
      if (files.length === 0) return;
      event.preventDefault();
      void this.#pictures.add(files);
    });
    // Anywhere on the page: who lets go a little beside the field means the same, and the browser would open the file.
    document.addEventListener("dragover", (event) => {
      if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
    });
    document.addEventListener("drop", (event) => {
      const files = [...(event.dataTransfer?.files ?? [])];
      if (files.length === 0) return;
      event.preventDefault();
      void this.#pictures.add(files);
    });
    try {
      this.#field.value = localStorage.getItem(DRAFT) ?? "";
    } catch {
      // Without storage there are no drafts.
    }
    this.#send.disabled = !this.#ready;
    window.addEventListener("pagehide", () => this.#keepDraft());
    new ResizeObserver(() => this.#fit()).observe(this.element);
  }

  /** There is something to send, and all of it is here. */
  get #ready(): boolean {
    return (this.text.trim() !== "" || this.#pictures.count > 0) && !this.#pictures.busy;
  }

  get text(): string {
    return this.#field.value;
  }

  focus() {
    this.#field.focus({ preventScroll: true });
  }

  clear() {
    this.#field.value = "";
    this.#pictures.clear();
    this.#changed();
  }

  /** Gives a text back, unless the person has begun another one. */
  restore(text: string) {
    if (this.#field.value.trim() !== "") return;
    this.#field.value = text;
    this.#changed();
  }

  problem(text: string | null) {
    this.#problem.hidden = text === null;
    this.#problem.textContent = text ?? "";
  }

  busy(busy: boolean) {
    if (busy === this.#busy) return;
    this.#busy = busy;
    const focused = document.activeElement === this.#send || document.activeElement === this.#stop;
    this.#send.hidden = busy;
    this.#stop.hidden = !busy;
    if (focused) this.focus();
    this.#changed();
  }

  #submit() {
    if (this.#busy || !this.#ready) return;
    this.problem(null);
    this.actions.send(this.text, this.#pictures.addresses);
  }

  #changed() {
    this.#send.disabled = !this.#ready;
    this.#fit();
    clearTimeout(this.#draft);
    this.#draft = window.setTimeout(() => this.#keepDraft(), 400);
  }

  #keepDraft() {
    try {
      if (this.text === "") localStorage.removeItem(DRAFT);
      else localStorage.setItem(DRAFT, this.text);
    } catch {
      // A draft too long to keep is still in the field.
    }
  }

  #fit() {
    this.#field.style.height = "auto";
    this.#field.style.height = `${this.#field.scrollHeight}px`;
  }
}
