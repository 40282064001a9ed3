export function handleRoute(req) {
  if (req.path !== "/last") return { json: { by: "c", path: req.path } };
}
