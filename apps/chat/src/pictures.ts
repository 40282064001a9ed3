// Pictures on their way into a message: checked, made smaller where they are large, kept as assets.

import { api, Refused } from "./api";
import { h, icon } from "./dom";
import { T } from "./text";

export const MOST = 8;
/** Pixels of the longer side, and bytes: models look at no more, and some providers refuse larger ones. */
const LONGEST = 2048;
const LARGEST = 4 << 20;
const KINDS = ["image/png", "image/jpeg", "image/gif", "image/webp"];

interface Attached {
  /** The asset's address, once it is kept. */
  address: string | null;
  preview: string;
}

/** The pictures of the message that is being written. */
export class Pictures {
  readonly element = h("ul", { class: "attached", hidden: true });
  readonly button = h("button", { type: "button", class: "icon-only attach", "aria-label": T.attach, title: T.attach }, icon("image"));
  readonly #input = h("input", { type: "file", accept: KINDS.join(","), multiple: true, hidden: true });
  #list: Attached[] = [];

  constructor(
    private readonly changed: () => void,
    private readonly problem: (text: string) => void,
  ) {
    this.button.append(this.#input);
    this.button.addEventListener("click", (event) => {
      if (event.target !== this.#input) this.#input.click();
    });
    this.#input.addEventListener("change", () => {
      void this.add([...(this.#input.files ?? [])]);
      this.#input.value = "";
    });
  }

  get count(): number {
    return this.#list.length;
  }

  /** Not all of them are kept yet. */
  get busy(): boolean {
    return this.#list.some((one) => one.address === null);
  }

  get addresses(): string[] {
    return this.#list.flatMap((one) => one.address ?? []);
  }

  async add(files: File[]) {
    const pictures = files.filter((file) => KINDS.includes(file.type));
    if (pictures.length < files.length) this.problem(T.imagesOnly);
    for (const file of pictures) {
      if (this.#list.length >= MOST) return this.problem(T.tooManyImages(MOST));
      const one: Attached = { address: null, preview: URL.createObjectURL(file) };
      this.#list.push(one);
      this.#show();
      try {
        one.address = await api.keepImage(await smaller(file));
      } catch (error) {
        this.#remove(one);
        this.problem(T.attachFailed(error instanceof Refused ? error.message : String(error)));
      }
      this.#show();
    }
  }

  clear() {
    for (const one of this.#list) URL.revokeObjectURL(one.preview);
    this.#list = [];
    this.#show();
  }

  #remove(one: Attached) {
    this.#list = this.#list.filter((other) => other !== one);
    URL.revokeObjectURL(one.preview);
    this.#show();
  }

  #show() {
    this.element.hidden = this.#list.length === 0;
    const items = this.#list.map((one, i) => {
      const remove = h("button", { type: "button", class: "icon-only", "aria-label": T.detach, title: T.detach }, icon("close"));
      remove.addEventListener("click", () => this.#remove(one));
      const picture = h("img", { src: one.preview, alt: T.picture(i + 1) });
      return h("li", one.address === null ? { class: "loading" } : {}, picture, remove);
    });
    this.element.replaceChildren(...items);
    this.changed();
  }
}

/** The picture itself where it is small enough, else a smaller one. */
async function smaller(file: File): Promise<Blob> {
  const bitmap = await createImageBitmap(file);
  const scale = Math.min(1, LONGEST / Math.max(bitmap.width, bitmap.height));
  if (scale === 1 && file.size <= LARGEST) {
    bitmap.close();
    return file;
  }
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  canvas.getContext("2d")?.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  bitmap.close();
  const kind = file.type === "image/png" && file.size <= LARGEST ? "image/png" : "image/jpeg";
  return new Promise((done, failed) => {
    canvas.toBlob((blob) => (blob ? done(blob) : failed(new Error(T.imagesOnly))), kind, 0.9);
  });
}
