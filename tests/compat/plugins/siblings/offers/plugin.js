export function appTools(ctx) {
  return { tools: [{ name: "look", description: JSON.stringify(ctx), parameters: { type: "object", properties: {} } }] };
}
