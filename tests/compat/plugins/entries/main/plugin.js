// Asks a model with the tools of its siblings.
export function handleRoute(req, host) {
  if (req.path !== "/ask") return;
  const request = { messages: [{ role: "user", content: req.body.text }], wantsTools: true };
  if (req.body.form === "async") return host.llm.generate(request).then((answer) => ({ json: { text: answer.text, siblings: host.siblingTools } }));
  if (!host.llm.results.a) return void host.llm.request("a", request);
  return { json: { text: host.llm.results.a.text, siblings: host.siblingTools } };
}
