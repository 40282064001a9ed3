// Ticks, and says so to the app's pages.
export async function onTick(ctx, host) {
  return { ticked: ctx.pluginId };
}
