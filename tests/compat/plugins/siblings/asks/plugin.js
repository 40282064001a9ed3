// Contract 3.2: `?siblingtools=1` gives the definitions that the app's other plugins offer.
export function handleRoute(req, host) {
  if (req.path === "/now") return { json: { siblings: host.siblingTools ?? null } };
  if (req.path === "/three") {
    const n = req.stash?.n ?? 0;
    if (n === 2) return { json: { siblings: host.siblingTools ?? null } };
    host.llm.request(`k${n}`, { messages: [{ role: "user", content: "x" }] });
    return { __llmPending: true, stash: { n: n + 1 } };
  }
}
export function appTools() {
  return { tools: [{ name: "mine", description: "not my own sibling", parameters: {} }] };
}
