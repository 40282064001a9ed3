export function onAppUpdate(ctx, host) {
  host.store.put("half", true);
  throw new Error(`cannot go from ${ctx.from}`);
}
