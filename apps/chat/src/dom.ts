type Attributes = Record<string, string | boolean | ((event: never) => void)>;

/** An element with attributes (functions are listeners) and children (text is always text). */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value as unknown as EventListener);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const PATHS = {
  menu: "M4 6h16M4 12h16M4 18h16",
  plus: "M12 5v14M5 12h14",
  pencil: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  bin: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  retry: "M4 12a8 8 0 1 0 2.5-5.8M4 4v5h5",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  down: "M12 5v14M6 13l6 6 6-6",
  close: "M6 6l12 12M18 6L6 18",
  image: "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15 9h.01",
  search: "M11 4a7 7 0 1 0 0 14a7 7 0 0 0 0-14M16 16l4 4",
};

export function icon(name: keyof typeof PATHS): SVGSVGElement {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  svg.classList.add("icon");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}

/** A button that copies and says so, in its own words, for a moment. */
export function copyButton(label: string, done: string, failed: string, text: () => string): HTMLButtonElement {
  const word = h("span", {}, label);
  const button = h("button", { type: "button", class: "quiet" }, icon("copy"), word);
  let timer = 0;
  button.addEventListener("click", async () => {
    let copied = true;
    try {
      await navigator.clipboard.writeText(text());
    } catch {
      copied = false;
    }
    word.textContent = copied ? done : failed;
    clearTimeout(timer);
    timer = window.setTimeout(() => {
      word.textContent = label;
    }, 2000);
  });
  return button;
}
