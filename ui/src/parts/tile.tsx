import { oneLine } from "./text";

const COLOURS = 8;

/** A letter on a colour that belongs to the app's id. Only for the eye: the name stands beside it. */
export function Tile({ id, name }: { id: string; name: string }) {
  let sum = 0;
  for (const unit of id) sum = (sum * 31 + (unit.codePointAt(0) ?? 0)) % 9973;
  const letter = [...oneLine(name, 40)].find((c) => /[\p{L}\p{N}]/u.test(c)) ?? "•";
  return (
    <span className={`tile tile-${sum % COLOURS}`} aria-hidden="true">
      {letter.toUpperCase()}
    </span>
  );
}
