// Contract 3.3: a crashing hook is skipped.
export function llmRequest() {
  throw new Error("the request hook broke");
}
export async function llmResponse() {
  throw new Error("the response hook broke");
}
