/** Nothing is null; digits with at most one point are a number; everything else is NaN. A comma is a fraction to some and a thousand to others, so it is not guessed at. */
export function readAmount(text: string, whole = false): number | null {
  const trimmed = text.trim();
  if (trimmed === "") return null;
  const n = Number(trimmed);
  const fits = whole ? /^\d+$/.test(trimmed) : /^(\d+(\.\d*)?|\.\d+)$/.test(trimmed);
  return fits && n <= Number.MAX_SAFE_INTEGER ? n : Number.NaN;
}
