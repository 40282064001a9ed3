// Contract 3.1: a plugin is plain JavaScript; TypeScript syntax fails to load.
export function handleRoute(req: Request): Answer {
  return { json: 1 };
}
