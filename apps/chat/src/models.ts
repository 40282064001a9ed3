import type { Models } from "./api";
import { h } from "./dom";
import { T } from "./text";

/** The choice of a model: a native list, which works with every keyboard, reader and screen. */
export class ModelPicker {
  readonly element: HTMLElement;
  readonly select = h("select", { "aria-label": T.model, title: T.model });
  /** How much the model is to think; shown where it can. */
  readonly reasoning = h("select", { "aria-label": T.reasoning, title: T.reasoning, hidden: true });
  #level: string | null = null;
  #badge = h("span", { class: "badge", title: T.cannedTitle, hidden: true }, T.canned);
  #models: Models | null = null;
  #wanted: string | null = null;

  constructor(changed: (ref: string | null) => void, thinks: (level: string | null) => void) {
    this.reasoning.addEventListener("change", () => {
      this.#level = this.reasoning.value || null;
      thinks(this.#level);
    });
    this.select.addEventListener("change", () => {
      this.#wanted = this.select.value || null;
      this.#showBadge();
      this.#showLevels();
      changed(this.#wanted);
    });
    this.element = h("div", { class: "picker" }, this.select, this.reasoning, this.#badge);
  }

  /** The chosen model, or the default, or null when there is none. */
  get value(): string | null {
    return this.#wanted ?? this.#models?.default ?? this.#models?.models[0]?.ref ?? null;
  }

  /** The level of thinking, where the model knows any. */
  get level(): string | null {
    return this.reasoning.hidden ? null : this.#level;
  }

  /** The name of the chosen model, if its server says that it takes no images. */
  get withoutImages(): string | null {
    const model = this.#models?.models.find((one) => one.ref === this.value);
    return model?.images === false ? model.label : null;
  }

  get none(): boolean {
    return this.#models !== null && this.#models.models.length === 0;
  }

  label(ref: string): { label: string; canned: boolean } {
    const model = this.#models?.models.find((one) => one.ref === ref);
    return model ?? { label: ref.slice(ref.indexOf("/") + 1), canned: ref === "demo/canned" };
  }

  show(models: Models | null, wanted: string | null, level: string | null) {
    this.#models = models;
    this.#level = level;
    this.#wanted = wanted;
    const options: HTMLOptionElement[] = [];
    for (const model of models?.models ?? []) {
      const name = model.canned ? T.modelCanned(model.label) : model.label;
      const where = model.connectionName && model.connectionName !== model.label ? ` · ${model.connectionName}` : "";
      const text = `${name}${where}`;
      options.push(h("option", { value: model.ref }, model.ref === models?.default ? T.modelDefault(text) : text));
    }
    for (const { connectionName } of models?.errors ?? []) {
      options.push(h("option", { disabled: true, value: "" }, T.modelsFailed(connectionName)));
    }
    const value = this.value;
    if (value !== null && !options.some((option) => option.value === value)) {
      options.unshift(h("option", { value }, models ? T.modelGone(value) : value));
    }
    if (value === null) options.unshift(h("option", { value: "" }, T.noModels));
    this.select.replaceChildren(...options);
    this.select.value = value ?? "";
    this.select.disabled = options.length === 0;
    this.#showBadge();
    this.#showLevels();
  }

  #showLevels() {
    const model = this.#models?.models.find((one) => one.ref === this.value);
    const levels = model?.reasoning ? (model.reasoningLevels ?? []) : [];
    this.reasoning.hidden = levels.length === 0;
    const options = levels.map((level) => h("option", { value: level }, T.reasoningLevel(level)));
    this.reasoning.replaceChildren(h("option", { value: "" }, T.reasoningDefault), ...options);
    this.reasoning.value = levels.includes(this.#level ?? "") ? (this.#level ?? "") : "";
  }

  #showBadge() {
    const value = this.value;
    this.#badge.hidden = value === null || !this.label(value).canned;
  }
}
