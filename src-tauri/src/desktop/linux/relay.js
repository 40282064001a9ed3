// Runs beside the page in a script world of its own, which the page cannot reach: the only one with a way out of the
// web process. It lets the page's messages through at a pace that leaves the other windows alone; the host checks all
// of it again. The page's half is page.js.
(() => {
  const out = webkit.messageHandlers.ipc;
  // The host's limits (flood.rs), in messages, characters and milliseconds.
  const RATE = 2;
  const BURST = 6000;
  const CHARACTER_RATE = 64 * 1024;
  const CHARACTER_BURST = 16 * 1024 * 1024;
  const LONGEST = 256 * 1024;
  const STOP_AFTER = 5000;
  let messages = BURST;
  let characters = CHARACTER_BURST;
  let at = performance.now();
  let dropped = 0;
  let stopped = false;

  const relay = (event) => {
    const text = event.detail;
    if (stopped || typeof text !== "string") return;
    const now = performance.now();
    messages = Math.min(BURST, messages + (now - at) * RATE);
    characters = Math.min(CHARACTER_BURST, characters + (now - at) * CHARACTER_RATE);
    at = now;
    if (text.length <= LONGEST && messages >= 1 && characters >= text.length) {
      messages -= 1;
      characters -= text.length;
      if (messages > BURST / 2) dropped = 0;
      out.postMessage(text);
      return;
    }
    if (dropped === 0) out.postMessage("lost");
    dropped += Math.max(1, Math.floor(text.length / 1024));
    if (dropped < STOP_AFTER) return;
    stopped = true;
    out.postMessage("flood");
  };

  const listen = () => document.addEventListener("chrysalis-ipc", relay, true);
  listen();
  // `document.open` takes every listener away and the content with it.
  new MutationObserver(listen).observe(document, { childList: true });
})();
