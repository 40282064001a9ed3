/** A page without the clipboard permission copies the old way, inside the person's own click or key. */
export function patchClipboard(win: Window & typeof globalThis) {
  const navigator = win.navigator;
  const native = navigator.clipboard;
  const writeText = async (given: string) => {
    const text = String(given);
    if (copyBySelection(win.document, text)) return;
    if (native?.writeText) return native.writeText(text);
    throw new win.DOMException("Copying needs a click or a key press of the person.", "NotAllowedError");
  };
  if (native) Object.defineProperty(native, "writeText", { value: writeText, configurable: true, writable: true });
  else Object.defineProperty(navigator, "clipboard", { value: { writeText }, configurable: true });
}

function copyBySelection(document: Document, text: string): boolean {
  const root = document.body ?? document.documentElement;
  const focused = document.activeElement;
  const area = document.createElement("textarea");
  area.value = text;
  area.readOnly = true;
  area.setAttribute("aria-hidden", "true");
  area.style.cssText = "position:fixed;top:0;left:0;width:1px;height:1px;opacity:0;pointer-events:none";
  root.append(area);
  try {
    area.select();
    return document.execCommand("copy");
  } catch {
    return false;
  } finally {
    area.remove();
    if (focused && "focus" in focused) (focused as HTMLElement).focus({ preventScroll: true });
  }
}
