import { t } from "../i18n";

/** Characters that would hide, reorder or break what stands around a foreign text. */
const UNSEEN =
  /[\p{Cc}\p{Zl}\p{Zp}\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff0-\uffff\u{e0000}-\u{e0fff}]|\u034f/gu;
/** More marks on one letter than any writing needs: they would paint over the lines around. */
const STACKED = /(\p{M}{4})\p{M}+/gu;

/** A foreign text on one line: nothing in it can hide or turn around what stands beside it. */
export function oneLine(text: string, longest = 300): string {
  const seen = text.replace(/\s+/gu, " ").replace(UNSEEN, "\ufffd").replace(STACKED, "$1").trim();
  return seen.length > longest ? `${seen.slice(0, longest)}…` : seen;
}

/** A name or other text that an app, a manifest or a server chose, as text with its own writing direction. */
export function Foreign({ text, longest }: { text: string; longest?: number }) {
  return <bdi>{oneLine(text, longest) || t.common.unnamed}</bdi>;
}

/** The same, over several lines. */
export function ForeignBlock({ text, className }: { text: string; className?: string }) {
  const lines = text.slice(0, 8000).split(/\r\n|\r|\n/);
  return (
    <span className={className} dir="auto">
      {lines.map((line) => oneLine(line, 4000)).join("\n")}
    </span>
  );
}

/** All that shows nothing, or something other than itself: controls, directions, joiners, fillers, odd spaces. */
const UNSEEN_IN_CODE =
  /((?:(?!\t)[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Zs})+|\p{M}{5,})/gu;
/** Codes written out of a run of unseen characters; the others are counted. */
const MOST_CODES = 12;

function codesOf(text: string): string {
  const all = [...text];
  const code = (c: string) => `U+${(c.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
  const codes = all.slice(0, MOST_CODES).map(code).join(" ");
  return all.length > MOST_CODES ? `${codes} ${t.difference.moreUnseen(all.length - MOST_CODES)}` : codes;
}

/**
 * A line of foreign code, each character where it stands in the file: nothing is turned around (the style forbids it),
 * and what cannot be seen is written as its code.
 */
export function CodeLine({ text, longest = 20_000 }: { text: string; longest?: number }) {
  const parts = text.slice(0, longest).split(UNSEEN_IN_CODE);
  return (
    <code className="code-line" dir="ltr">
      {parts.map((part, at) =>
        at % 2 === 1 ? (
          <span key={at} className="unseen">
            {codesOf(part)}
          </span>
        ) : (
          part
        ),
      )}
      {text.length > longest ? <span className="unseen">{t.difference.longer(text.length - longest)}</span> : null}
    </code>
  );
}
