export async function handleRoute() {
  return { json: { by: "d" } };
}
