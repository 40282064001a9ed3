import type { Conversation } from "./api";
import { h, icon } from "./dom";
import { T } from "./text";

export interface SidebarActions {
  open(id: string): void;
  create(): void;
  rename(id: string, title: string): void;
  remove(conversation: Conversation): void;
  undo(conversation: Conversation): void;
  search(words: string): void;
}

export class Sidebar {
  readonly element: HTMLElement;
  #list = h("ul", { class: "list" });
  #search = h("input", { type: "search", class: "search", "aria-label": T.search, placeholder: T.search, maxlength: "200" });
  #searching = 0;
  #undo = h("div", { class: "undo", role: "status" });
  #current: string | null = null;
  #editing: string | null = null;
  #undoTimer = 0;
  readonly closeButton = h("button", { type: "button", class: "icon-only", "aria-label": T.closeList }, icon("close"));

  constructor(private readonly actions: SidebarActions) {
    const create = h(
      "button",
      { type: "button", class: "new", title: T.newConversationKeys, click: () => actions.create() },
      icon("plus"),
      h("span", {}, T.newConversation),
    );
    this.element = h(
      "nav",
      { class: "sidebar", id: "conversations", "aria-label": T.conversations },
      h("div", { class: "side-head" }, create, this.closeButton),
      h("div", { class: "search-box" }, icon("search"), this.#search),
      this.#list,
      this.#undo,
    );
    this.#search.addEventListener("input", () => {
      clearTimeout(this.#searching);
      this.#searching = window.setTimeout(() => actions.search(this.words), 150);
    });
    this.#search.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || this.#search.value === "") return;
      event.stopPropagation();
      this.#search.value = "";
      actions.search("");
    });
  }

  /** What is searched for; empty for nothing. */
  get words(): string {
    return this.#search.value.trim();
  }

  show(conversations: Conversation[] | null, current: string | null) {
    this.#current = current;
    // A list that redraws must not throw away a title that is being written.
    if (this.#editing !== null) return;
    const focused = document.activeElement instanceof HTMLElement ? document.activeElement.dataset.focus : undefined;
    const rows = conversations?.map((conversation) => this.#row(conversation)) ?? [];
    if (rows.length === 0) rows.push(h("li", { class: "empty" }, this.#nothing(conversations)));
    this.#list.replaceChildren(...rows);
    if (focused) this.#list.querySelector<HTMLElement>(`[data-focus="${CSS.escape(focused)}"]`)?.focus();
  }

  #nothing(conversations: Conversation[] | null): string {
    if (conversations === null) return T.loadingList;
    return this.words === "" ? T.emptyList : T.nothingFound(this.words);
  }

  #row(conversation: Conversation): HTMLLIElement {
    const { id, title } = conversation;
    const open = h("button", { type: "button", class: "open", title, click: () => this.actions.open(id) }, h("span", { class: "open-title" }, title));
    if (conversation.hit) open.append(h("span", { class: "hit" }, conversation.hit.text));
    open.dataset.focus = `open-${id}`;
    if (id === this.#current) open.setAttribute("aria-current", "page");
    const rename = h(
      "button",
      { type: "button", class: "icon-only", "aria-label": T.rename(title), title: T.rename(title) },
      icon("pencil"),
    );
    rename.dataset.focus = `rename-${id}`;
    const remove = h(
      "button",
      { type: "button", class: "icon-only", "aria-label": T.remove(title), title: T.remove(title) },
      icon("bin"),
    );
    const row = h("li", id === this.#current ? { class: "current" } : {}, open, rename, remove);
    const edit = () => this.#edit(row, conversation);
    rename.addEventListener("click", edit);
    open.addEventListener("dblclick", edit);
    remove.addEventListener("click", () => this.actions.remove(conversation));
    row.addEventListener("keydown", (event) => {
      if (this.#editing !== null) return;
      if (event.key === "F2") edit();
      else if (event.key === "Delete") this.actions.remove(conversation);
      else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        const next = event.key === "ArrowDown" ? row.nextElementSibling : row.previousElementSibling;
        next?.querySelector<HTMLElement>(".open")?.focus();
      } else return;
      event.preventDefault();
    });
    return row;
  }

  #edit(row: HTMLLIElement, { id, title }: Conversation) {
    this.#editing = id;
    const field = h("input", { class: "title-field", "aria-label": T.titleField, maxlength: "80", value: title });
    const before = [...row.childNodes];
    let over = false;
    const finish = (keep: boolean) => {
      if (over) return;
      over = true;
      this.#editing = null;
      const next = field.value.trim();
      row.replaceChildren(...before);
      row.querySelector<HTMLElement>(".open")?.focus();
      if (keep && next !== "" && next !== title) this.actions.rename(id, next);
    };
    field.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Enter" && !event.isComposing) finish(true);
      else if (event.key === "Escape") finish(false);
    });
    field.addEventListener("blur", () => finish(true));
    row.replaceChildren(field);
    field.select();
  }

  offerUndo(conversation: Conversation) {
    clearTimeout(this.#undoTimer);
    const button = h("button", { type: "button", class: "quiet" }, T.undo);
    button.addEventListener("click", () => {
      this.#undo.replaceChildren();
      this.actions.undo(conversation);
    });
    this.#undo.replaceChildren(h("span", {}, T.removed(conversation.title)), button);
    button.focus();
    // The plugin keeps it for ten minutes; the offer stays for a good while, not for ever.
    this.#undoTimer = window.setTimeout(() => this.#undo.replaceChildren(), 60_000);
  }
}
