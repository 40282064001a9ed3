// Runs beside the page in a script world of its own, which the page cannot reach: the only one with a way out of the
// web process. It hands the page's messages on at a pace that leaves the other windows alone, in order, and keeps what
// is too much for now in the page's own process; the host checks all of it again. The page's half is page.js.
(() => {
  const out = webkit.messageHandlers.ipc;
  // Below the host's limits (flood.rs): per millisecond and at once, in messages and characters.
  const RATE = 1.8;
  const BURST = 5000;
  const CHARACTER_RATE = 16 * 1024;
  const CHARACTER_BURST = 6 * 1024 * 1024;
  const LONGEST = 256 * 1024;
  // What may wait: a whole download of 64 MiB in Base64 fits.
  const WAITING = 20000;
  const WAITING_CHARACTERS = 96 * 1024 * 1024;
  const STOP_AFTER = 5000;
  const PAUSE_MS = 10;
  let messages = BURST;
  let characters = CHARACTER_BURST;
  let at = performance.now();
  let queue = [];
  let first = 0;
  let held = 0;
  let dropped = 0;
  let later = false;
  let stopped = false;

  const drain = () => {
    const now = performance.now();
    messages = Math.min(BURST, messages + (now - at) * RATE);
    characters = Math.min(CHARACTER_BURST, characters + (now - at) * CHARACTER_RATE);
    at = now;
    while (first < queue.length && !stopped) {
      const text = queue[first];
      if (messages < 1 || characters < text.length) {
        if (!later) {
          later = true;
          setTimeout(() => {
            later = false;
            drain();
          }, PAUSE_MS);
        }
        break;
      }
      queue[first++] = "";
      held -= text.length;
      messages -= 1;
      characters -= text.length;
      out.postMessage(text);
    }
    if (first === queue.length || stopped) {
      queue = [];
      first = held = dropped = 0;
    } else if (first > WAITING) {
      queue = queue.slice(first);
      first = 0;
    }
  };

  const relay = (event) => {
    const text = event.detail;
    if (stopped || typeof text !== "string") return;
    const size = text.length;
    if (size <= LONGEST && queue.length - first < WAITING && held + size <= WAITING_CHARACTERS) {
      queue.push(text);
      held += size;
      if (!later) drain();
      return;
    }
    if (dropped === 0) out.postMessage("lost");
    dropped += Math.max(1, Math.floor(size / 1024));
    if (dropped < STOP_AFTER) return;
    stopped = true;
    drain();
    out.postMessage("flood");
  };

  const listen = () => document.addEventListener("chrysalis-ipc", relay, true);
  listen();
  // `document.open` takes every listener away and the content with it.
  new MutationObserver(listen).observe(document, { childList: true });
})();
