// Contract 3.4: `host.zip`, an archive that came as `zipBase64`.
const thrown = (what) => { try { what(); return null } catch (e) { return String(e.message ?? e) } };

export function handleRoute(req, host) {
  if (req.path !== "/rule") return;
  const { zip } = host;
  if (!req.body.with) return { json: [thrown(() => zip.list()), thrown(() => zip.entries()), thrown(() => zip.image("a"))] };
  const entries = zip.entries();
  return {
    json: {
      count: zip.list(), names: Object.keys(entries).sort(), entries: { ...entries, "large.txt": { ...entries["large.txt"], base64: "" } },
      image: zip.image("picture.png"), wrong: [thrown(() => zip.image("notes.txt")), thrown(() => zip.image("none.png"))],
      body: req.body.zipBase64.length < 100,
    },
  };
}
