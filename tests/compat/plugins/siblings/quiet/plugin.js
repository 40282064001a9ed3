// Offers without being allowed to.
export function appTools() {
  return { tools: [{ name: "hidden", description: "", parameters: {} }] };
}
