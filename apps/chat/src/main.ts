import "./style.css";
import "./pictures.css";
import { api, type Conversation, type Message, type Models, Refused } from "./api";
import { Composer } from "./composer";
import { h, icon } from "./dom";
import { ModelPicker } from "./models";
import { Sidebar } from "./sidebar";
import { follow } from "./stream";
import { T } from "./text";
import { Thread } from "./thread";

const OPEN = "chat.open";
const NARROW = matchMedia("(max-width: 767px)");
const pause = (ms: number) => new Promise<void>((done) => setTimeout(done, ms));

/** An answer that is being written, as far as this page follows it. */
interface Live {
  conversation: string;
  chatId: string;
  control: AbortController;
}

class Chat {
  #conversations: Conversation[] | null = null;
  #current: Conversation | null = null;
  #messages: Message[] = [];
  #live: Live | null = null;
  #models: Models | null = null;
  /** Counts openings, so that a slow answer for one conversation does not land in another. */
  #opening = 0;

  readonly #picker = new ModelPicker(
    (ref) => void this.#chooseModel(ref),
    (level) => void this.#chooseLevel(level),
  );
  readonly #thread = new Thread({
    retry: () => void this.#retry(),
    edit: (message, text) => this.#edit(message, text),
    modelLabel: (ref) => this.#picker.label(ref),
  });
  readonly #composer = new Composer(
    { send: (text, images) => void this.#send(text, images), stop: () => void this.#stop() },
    this.#picker.element,
  );
  readonly #sidebar = new Sidebar({
    open: (id) => void this.#open(id),
    create: () => this.#new(),
    rename: (id, title) => void this.#change(id, { title }),
    remove: (conversation) => void this.#remove(conversation),
    undo: (conversation) => void this.#undo(conversation),
    search: () => void this.#loadList(),
  });
  readonly #title = h("h1", {}, T.app);
  readonly #menu = h(
    "button",
    { type: "button", class: "icon-only menu", "aria-label": T.openList, "aria-controls": "conversations" },
    icon("menu"),
  );
  readonly #notice = h("div", { class: "notice", role: "status", hidden: true });
  readonly #spoken = h("p", { class: "spoken", "aria-live": "polite" });
  readonly #page: HTMLElement;

  constructor(root: HTMLElement) {
    const column = h(
      "div",
      { class: "column" },
      h("header", {}, this.#menu, this.#title),
      this.#notice,
      this.#thread.element,
      this.#composer.element,
    );
    const shade = h("div", { class: "shade", click: () => this.#drawer(false) });
    this.#page = h("div", { class: "page" }, this.#sidebar.element, shade, column, this.#spoken);
    root.replaceWith(this.#page);
    this.#menu.addEventListener("click", () => this.#drawer(true));
    this.#sidebar.closeButton.addEventListener("click", () => this.#drawer(false));
    NARROW.addEventListener("change", () => this.#drawer(false));
    this.#drawer(false);
    document.addEventListener("keydown", (event) => this.#key(event));
    window.addEventListener("focus", () => {
      if (this.#picker.none) void this.#loadModels();
    });
  }

  async start() {
    this.#thread.show([]);
    this.#sidebar.show(null, null);
    this.#composer.focus();
    this.#composer.busy(false);
    void this.#loadModels();
    if (!(await this.#loadList())) return;
    let last: string | null = null;
    try {
      last = localStorage.getItem(OPEN);
    } catch {
      // Without storage the page starts with a new conversation.
    }
    if (last && this.#conversations?.some((one) => one.id === last)) await this.#open(last);
  }

  // ---- what is loaded

  async #loadModels(): Promise<void> {
    try {
      this.#models = await api.models();
    } catch (error) {
      return this.#say(T.notLoaded(reason(error)), () => this.#loadModels());
    }
    this.#showPicker();
    if (this.#picker.none) this.#say(T.noModelsWhatToDo, () => this.#loadModels(), T.lookAgain);
    else this.#say(null);
    if (this.#messages.length > 0) this.#thread.merge(this.#messages.map((message) => ({ ...message })));
  }

  #showPicker() {
    this.#picker.show(this.#models, this.#current?.model ?? null, this.#current?.reasoning ?? null);
  }

  async #loadList(): Promise<boolean> {
    const { words } = this.#sidebar;
    try {
      const found = await api.list(words);
      // Something else is searched for by now.
      if (words !== this.#sidebar.words) return true;
      this.#conversations = found;
    } catch (error) {
      this.#say(T.notLoaded(reason(error)), () => this.start());
      return false;
    }
    this.#showList();
    return true;
  }

  #showList() {
    this.#sidebar.show(this.#conversations, this.#current?.id ?? null);
    this.#title.textContent = this.#current?.title ?? T.app;
    document.title = this.#current ? `${this.#current.title} – ${T.app}` : T.app;
  }

  #know(conversation: Conversation) {
    const others = (this.#conversations ?? []).filter((one) => one.id !== conversation.id);
    const { hit } = (this.#conversations ?? []).find((one) => one.id === conversation.id) ?? {};
    this.#conversations = [hit ? { ...conversation, hit } : conversation, ...others].sort((a, b) => b.updatedAt - a.updatedAt);
    if (this.#current?.id === conversation.id) this.#current = conversation;
    this.#showList();
  }

  /** A line above the conversation, with something to do about it. Null takes it away. */
  #say(text: string | null, again?: () => unknown, label = T.tryAgain) {
    this.#notice.hidden = text === null;
    if (text === null) return;
    const button = h("button", { type: "button", class: "quiet" }, label);
    button.addEventListener("click", () => {
      this.#say(null);
      void again?.();
    });
    this.#notice.replaceChildren(h("p", {}, text), ...(again ? [button] : []));
  }

  // ---- conversations

  #new() {
    this.#leave();
    this.#current = null;
    this.#messages = [];
    this.#thread.show([]);
    this.#showPicker();
    this.#remember(null);
    this.#showList();
    this.#drawer(false);
    this.#composer.focus();
  }

  /** Stops following, never the answer itself: it goes on and is found when one comes back. */
  #leave() {
    this.#opening += 1;
    this.#live?.control.abort();
    this.#live = null;
    this.#composer.busy(false);
    this.#composer.problem(null);
  }

  async #open(id: string, lost?: string): Promise<void> {
    this.#leave();
    const opening = this.#opening;
    this.#drawer(false);
    try {
      const { conversation, messages } = await api.open(id, lost);
      if (opening !== this.#opening) return;
      const same = this.#current?.id === id;
      this.#current = conversation;
      this.#messages = messages;
      if (same) this.#thread.merge(messages);
      else this.#thread.show(messages);
      this.#showPicker();
      this.#remember(id);
      this.#showList();
      if (!NARROW.matches) this.#composer.focus();
      const last = messages.at(-1);
      if (last?.state === "pending" && last.chatId) void this.#rejoin(conversation.id, last);
    } catch (error) {
      if (opening !== this.#opening) return;
      if (error instanceof Refused && error.status === 404) {
        this.#remember(null);
        void this.#loadList();
      }
      this.#say(T.notLoaded(reason(error)), () => this.#open(id, lost));
    }
  }

  #remember(id: string | null) {
    try {
      if (id) localStorage.setItem(OPEN, id);
      else localStorage.removeItem(OPEN);
    } catch {
      // Only a convenience.
    }
  }

  async #change(id: string, patch: { title?: string; model?: string | null; reasoning?: string | null }) {
    try {
      this.#know(await api.change(id, patch));
    } catch (error) {
      this.#say(reason(error), () => this.#change(id, patch));
    }
  }

  async #chooseModel(model: string | null) {
    this.#composer.focus();
    if (this.#current) await this.#change(this.#current.id, { model });
  }

  async #chooseLevel(reasoning: string | null) {
    this.#composer.focus();
    if (this.#current) await this.#change(this.#current.id, { reasoning });
  }

  async #remove(conversation: Conversation): Promise<void> {
    try {
      await api.remove(conversation.id);
    } catch (error) {
      return this.#say(reason(error), () => this.#remove(conversation));
    }
    this.#conversations = (this.#conversations ?? []).filter((one) => one.id !== conversation.id);
    if (this.#current?.id === conversation.id) {
      this.#leave();
      this.#current = null;
      this.#messages = [];
      this.#thread.show([]);
      this.#showPicker();
      this.#remember(null);
    }
    this.#showList();
    this.#sidebar.offerUndo(conversation);
  }

  async #undo(conversation: Conversation) {
    try {
      this.#know(await api.change(conversation.id, { deleted: false }));
      await this.#open(conversation.id);
    } catch (error) {
      this.#say(reason(error));
    }
  }

  // ---- asking and answering

  async #send(text: string, images: string[]) {
    if (this.#live) return;
    const { level: reasoning, withoutImages } = this.#picker;
    if (images.length > 0 && withoutImages) return this.#composer.problem(T.noImages(withoutImages));
    const model = this.#picker.value;
    if (model === null) {
      if (this.#models) return this.#say(T.noModelsWhatToDo, () => this.#loadModels(), T.lookAgain);
      return this.#composer.problem(T.notLoaded(T.noModels));
    }
    this.#composer.clear();
    let conversation = this.#current;
    if (!conversation) {
      this.#composer.busy(true);
      const opening = this.#opening;
      try {
        conversation = await api.create(this.#picker.value, reasoning);
      } catch (error) {
        return this.#notSent(text, error);
      } finally {
        this.#composer.busy(false);
      }
      if (opening !== this.#opening) return this.#composer.restore(text);
      this.#current = conversation;
      this.#remember(conversation.id);
      this.#know(conversation);
    }
    const n = conversation.count;
    const chatId = streamName(conversation.id, n + 1);
    const now = Date.now();
    const before = this.#messages;
    const attached = images.length > 0 ? { images } : {};
    const question: Message = { n, role: "user", text, ...attached, at: now, state: "done" };
    const answer: Message = { n: n + 1, role: "assistant", text: "", at: now, state: "pending", model, chatId };
    this.#messages = [...before, question, answer];
    this.#thread.merge(this.#messages);
    // As the plugin will title it, only sooner.
    if (n === 0 && !conversation.titled) this.#know({ ...conversation, title: text.trim().replace(/\s+/g, " ").slice(0, 80) });
    this.#thread.toEnd();
    const { id } = conversation;
    await this.#run(id, answer, api.send(id, { text, ...attached, model, reasoning, chatId }), (error) => {
      if (this.#current?.id === id) {
        this.#messages = before;
        this.#thread.merge(before);
      }
      this.#notSent(text, error);
    });
  }

  #notSent(text: string, error: unknown) {
    this.#composer.restore(text);
    this.#composer.problem(T.notSent(reason(error)));
  }

  /** Asks an earlier question anew; resolves once the page shows it, or it was refused. */
  async #edit(message: Message, text: string): Promise<boolean> {
    const conversation = this.#current;
    const { value: model, level: reasoning } = this.#picker;
    if (!conversation || this.#live) return false;
    const { n, images } = message;
    const chatId = streamName(conversation.id, n + 1);
    const now = Date.now();
    const before = this.#messages;
    const attached = images ? { images } : {};
    const question: Message = { n, role: "user", text, ...attached, at: now, state: "done" };
    const answer: Message = { n: n + 1, role: "assistant", text: "", at: now, state: "pending", model, chatId };
    this.#messages = [...before.filter((one) => one.n < n), question, answer];
    this.#thread.merge(this.#messages);
    this.#thread.toEnd();
    const { id } = conversation;
    if (before.some((one) => one.n > n + 1)) this.#say(T.edited, () => this.#unedit(id), T.undo);
    void this.#run(id, answer, api.edit(id, { n, text, ...attached, model, reasoning, chatId }), (error) => {
      if (this.#current?.id !== id) return;
      this.#say(null);
      this.#messages = before;
      this.#thread.merge(before);
      this.#composer.problem(reason(error));
    });
    return true;
  }

  async #unedit(id: string): Promise<void> {
    try {
      if (this.#live) await this.#stop();
      for (let tries = 0; this.#live && tries < 40; tries++) await pause(100);
      const { conversation, messages } = await api.unedit(id);
      this.#know(conversation);
      if (this.#current?.id !== id) return;
      this.#messages = messages;
      this.#thread.merge(messages);
    } catch (error) {
      this.#say(reason(error));
    }
  }

  async #retry() {
    const conversation = this.#current;
    const last = this.#messages.at(-1);
    const { value: model, level: reasoning } = this.#picker;
    if (!conversation || !last || this.#live) return;
    const n = last.role === "assistant" ? last.n : last.n + 1;
    const chatId = streamName(conversation.id, n);
    const before = this.#messages;
    const answer: Message = { n, role: "assistant", text: "", at: Date.now(), state: "pending", model, chatId };
    this.#messages = [...before.filter((message) => message.n < n), answer];
    this.#thread.merge(this.#messages);
    this.#thread.toEnd();
    this.#composer.focus();
    const { id } = conversation;
    await this.#run(id, answer, api.retry(id, { model, reasoning, chatId }), (error) => {
      if (this.#current?.id !== id) return;
      this.#messages = before;
      this.#thread.merge(before);
      this.#composer.problem(reason(error));
    });
  }

  /** Follows an answer that this page asked for; `posted` ends when the plugin has kept the whole of it. */
  async #run(
    id: string,
    pending: Message,
    posted: Promise<{ conversation: Conversation; message: Message }>,
    undo: (error: unknown) => void,
  ) {
    const chatId = pending.chatId as string;
    const live = this.#begin(id, chatId);
    let over = false;
    this.#follow(live, pending, () => !over).catch(() => {});
    try {
      const { conversation, message } = await posted;
      over = true;
      this.#finish(live);
      this.#know(conversation);
      if (this.#current?.id === id) this.#replace(message);
    } catch (error) {
      over = true;
      this.#finish(live);
      const refused = error instanceof Refused && (error.status < 500 || error.status === 507);
      if (refused && error.code !== "running") return undo(error);
      // The plugin or the engine broke off: what is kept there is the truth, if it can be asked.
      if (this.#current?.id === id) await this.#recover(id, chatId, () => undo(error));
    }
  }

  async #recover(id: string, chatId: string, undo: () => void) {
    try {
      const { messages } = await api.open(id);
      if (this.#current?.id !== id) return;
      if (messages.some((message) => message.chatId === chatId)) await this.#open(id);
      else undo();
    } catch {
      const last = this.#messages.at(-1);
      if (last?.chatId === chatId) this.#replace({ ...last, state: "interrupted" });
      this.#say(T.noEngine, () => this.#open(id));
    }
  }

  /** Follows an answer that was already running when this conversation was opened. */
  async #rejoin(id: string, pending: Message) {
    const chatId = pending.chatId as string;
    const live = this.#begin(id, chatId);
    try {
      const how = await this.#follow(live, pending, () => false);
      if (how === "ended") {
        // The plugin writes the end of it down just after the stream has ended.
        for (let tries = 0; tries < 40; tries++) {
          const { conversation, messages } = await api.open(id);
          if (this.#live !== live) return;
          const message = messages.find((one) => one.chatId === chatId);
          if (message?.state !== "pending") {
            this.#finish(live);
            this.#know(conversation);
            if (message) this.#replace(message);
            return;
          }
          await pause(150);
        }
      }
      if (this.#live !== live) return;
      await this.#open(id, chatId);
    } catch (error) {
      if (live.control.signal.aborted) return;
      this.#finish(live);
      this.#say(T.notLoaded(reason(error)), () => this.#open(id));
    }
  }

  #follow(live: Live, pending: Message, keepAsking: () => boolean) {
    let begun = false;
    return follow(
      live.chatId,
      live.control.signal,
      (text, thinking, waiting) => {
        if (this.#live !== live) return;
        this.#thread.wait(pending.n, waiting);
        const message: Message = { ...pending, text };
        if (thinking) message.thinking = thinking;
        this.#messages = this.#messages.map((one) => (one.n === message.n ? message : one));
        this.#thread.grow(message);
        if (!begun) this.#spoken.textContent = T.started;
        begun = true;
      },
      keepAsking,
    );
  }

  #begin(conversation: string, chatId: string): Live {
    this.#live = { conversation, chatId, control: new AbortController() };
    this.#composer.busy(true);
    return this.#live;
  }

  #finish(live: Live) {
    live.control.abort();
    if (this.#live !== live) return;
    this.#live = null;
    this.#composer.busy(false);
  }

  #replace(message: Message) {
    this.#messages = this.#messages.map((one) => (one.n === message.n ? message : one));
    this.#thread.merge(this.#messages);
    this.#spoken.textContent = message.state === "done" ? T.finished : T.ended;
  }

  async #stop() {
    const live = this.#live;
    // The model call may not have begun when the person already wants it gone.
    for (let tries = 0; live && this.#live === live && tries < 40; tries++) {
      try {
        if ((await api.stop(live.chatId)).active) return;
      } catch (error) {
        return this.#composer.problem(reason(error));
      }
      await pause(150);
    }
  }

  // ---- keys and the drawer

  #key(event: KeyboardEvent) {
    if (event.key === "Escape") {
      if (this.#page.classList.contains("with-list")) this.#drawer(false);
      else if (this.#live) void this.#stop();
      else return;
      event.preventDefault();
    } else if (event.key.toLowerCase() === "n" && (event.ctrlKey || event.metaKey || event.altKey) && !event.shiftKey) {
      event.preventDefault();
      this.#new();
    }
  }

  #drawer(open: boolean) {
    const was = this.#page.classList.contains("with-list");
    this.#page.classList.toggle("with-list", open && NARROW.matches);
    this.#sidebar.element.inert = NARROW.matches && !open;
    this.#menu.setAttribute("aria-expanded", String(open && NARROW.matches));
    if (open && NARROW.matches) this.#sidebar.closeButton.focus();
    else if (was) this.#menu.focus();
  }
}

function streamName(conversation: string, n: number): string {
  const random = crypto.getRandomValues(new Uint32Array(2));
  return `${conversation}:${n}:${[...random].map((part) => part.toString(36)).join("")}`;
}

function reason(error: unknown): string {
  if (error instanceof Refused) return error.message;
  return T.noEngine;
}

const root = document.getElementById("app");
if (root) void new Chat(root).start();
