// Contract 3.2: when none of `status`, `json` and `text` is there, the next plugin is asked; the first answer wins.
const nothing = {
  undefined: undefined,
  null: null,
  empty: {},
  number: 5,
  text: "words",
  list: [],
  type: { contentType: "text/plain" },
  other: { headers: {}, ok: true },
};
export function handleRoute(req, host) {
  const kind = req.query.kind;
  if (req.path === "/all") return nothing[kind];
  // The same at the end of three passes.
  if (req.path === "/late") {
    const n = req.stash?.n ?? 0;
    if (n < 2) {
      host.llm.request(`k${n}`, { messages: [{ role: "user", content: `${n}` }] });
      return { __llmPending: true, stash: { n: n + 1 } };
    }
    return nothing[kind];
  }
  if (req.path === "/first") return { json: { by: "a" } };
}
