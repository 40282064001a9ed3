// Contract 3.3: each pass runs the module again from scratch.
let passes = 0;
globalThis.seen = (globalThis.seen ?? 0) + 1;
Array.prototype.mark = (Array.prototype.mark ?? 0) + 1;
export function handleRoute(req, host) {
  if (req.path !== "/rule") return;
  passes += 1;
  const counted = [passes, globalThis.seen, [].mark];
  if (!host.llm.results.a) {
    host.llm.request("a", { messages: [{ role: "user", content: "x" }] });
    return { __llmPending: true, stash: counted };
  }
  return { json: { first: req.stash, now: counted } };
}
