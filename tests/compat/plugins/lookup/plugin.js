// Contract 3.4: `host.fs.lookup(collection, key[, value])`.
const thrown = (what) => { try { what(); return null } catch (e) { return String(e.message ?? e) } };

export function handleRoute(req, host) {
  if (req.path !== "/rule") return;
  const { lookup, list } = host.fs;
  const none = lookup("people", "nobody");
  lookup("people", "Ada", { born: 1815 });
  lookup("other", "ada", "another collection");
  lookup("people", "ÜNI", [1]);
  const found = [lookup("people", "Ada"), lookup("people", "aDA"), lookup("other", "ADA"), lookup("people", "üni")];
  lookup("people", "Ada", null);
  const wrong = {
    large: thrown(() => lookup("people", "x", "y".repeat(4096))),
    fits: thrown(() => lookup("people", "fits", "y".repeat(4094))),
    collection: ["", "a/b", "..", "x".repeat(65), "ä"].map((name) => thrown(() => lookup(name, "k", 1))),
    key: thrown(() => lookup("people", 5)),
  };
  return { json: { none, found, cleared: lookup("people", "ada"), wrong, folders: list("__lookup"), files: list("__lookup/people").length } };
}
