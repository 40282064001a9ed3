// Contract 3.4: the table of `host.fs`.
const thrown = (what) => { try { what(); return null } catch (e) { return String(e.message ?? e) } };

export function handleRoute(req, host) {
  if (req.path !== "/rule") return;
  const { fs } = host;
  const missing = {
    read: thrown(() => fs.read("no/file.txt")),
    readBase64: thrown(() => fs.readBase64("file.txt")),
    remove: thrown(() => fs.remove("no/such/file")),
  };
  fs.write("deep/er/a.txt", "one");
  fs.write("deep/er/a.txt", "zwölf");
  fs.mkdir("x/y/z");
  fs.mkdir("x/y/z");
  fs.write("x/b", "");
  fs.write("x/a", "1");
  fs.write("x/C", "2");
  const told = {
    read: fs.read("deep/er/a.txt"),
    base64: fs.readBase64("deep/er/a.txt"),
    empty: fs.read("x/b"),
    list: fs.list("x"),
    top: fs.list(),
    dot: fs.list("."),
    write: fs.write("x/d", "") ?? "nothing",
  };
  fs.remove("deep");
  fs.remove("x/y");
  const after = [fs.list(), fs.list("x"), thrown(() => fs.read("deep/er/a.txt"))];
  const root = [".", "", "./", "x/.."].map((path) => thrown(() => fs.remove(path)));
  const still = fs.list();
  const escapes = {};
  for (const path of ["../x", "..", "/etc/passwd", "x/../../x", "x/../../../etc/passwd", "..\\x", "C:\\x", "a\0b"]) {
    escapes[path] = [
      thrown(() => fs.read(path)), thrown(() => fs.write(path, "x")), thrown(() => fs.list(path)),
      thrown(() => fs.mkdir(path)), thrown(() => fs.remove(path)), thrown(() => fs.readBase64(path)),
    ];
  }
  const links = {};
  for (const path of req.body.links ?? []) {
    links[path] = [thrown(() => fs.read(path)), thrown(() => fs.write(path, "x")), thrown(() => fs.write(`${path}/in`, "x"))];
  }
  fs.remove("x");
  return { json: { missing, told, after, root, still, escapes, links } };
}
