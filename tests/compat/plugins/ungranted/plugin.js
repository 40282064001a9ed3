// Contract 3.1 and 3.4: what was not granted. Queued requests are dropped and do not make a pass pending; `host.net` is
// falsy; what is called throws.
const thrown = (what) => { try { what(); return null } catch (e) { return e.message } };
export function handleRoute(req, host) {
  if (req.path !== "/rule") return;
  const n = (req.stash?.n ?? 0) + 1;
  host.llm.request("a", { messages: [{ role: "user", content: "x" }] });
  host.llm.embed("e", { texts: ["x"] });
  const answer = {
    n,
    net: !!host.net,
    results: Object.keys(host.llm.results).concat(Object.keys(host.llm.embedResults)),
    store: thrown(() => host.store.get("x")),
    put: thrown(() => host.store.put("x", 1)),
    read: thrown(() => host.fs.read("x")),
    write: thrown(() => host.fs.write("x", "y")),
    zip: thrown(() => host.zip.list()),
  };
  return { json: answer, stash: { n } };
}
