// Contract 3.4: `host.fs.media(dataUri)`.
const thrown = (what) => { try { what(); return null } catch (e) { return String(e.message ?? e) } };

export function handleRoute(req, host) {
  if (req.path !== "/rule") return;
  const { media, list } = host.fs;
  const urls = req.body.good.map((uri) => media(uri));
  const again = req.body.good.map((uri) => media(uri));
  const wrong = req.body.bad.map((uri) => thrown(() => media(uri)));
  return { json: { urls, again, wrong, files: list("__media") } };
}
