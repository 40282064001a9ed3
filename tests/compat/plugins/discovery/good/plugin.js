// Contract 3.1: plugins that cannot be read do not stand in the way of those that can.
export function handleRoute(req) {
  if (req.path === "/good") return { json: { by: "good" } };
}
