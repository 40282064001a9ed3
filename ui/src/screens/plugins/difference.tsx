import { useMemo, useState } from "react";
import type { DiffFile, DiffLine, Difference as Shown } from "../../api-plugins";
import { formatNumber, t } from "../../i18n";
import { ErrorNote } from "../../parts/error";
import { CodeLine, Foreign, oneLine } from "../../parts/text";
import { useLoaded } from "../../state";

/** Unchanged lines that stay around a change. */
const AROUND = 3;
/** Lines drawn at once; the others come when they are asked for. */
const AT_ONCE = 600;

export interface Numbered extends DiffLine {
  /** Line in the old and in the new file; 0 where it has none. */
  before: number;
  after: number;
}
/** Lines that are shown together, or unchanged ones that are folded away. */
export interface Block {
  folded: boolean;
  lines: Numbered[];
}

/** Numbers the lines and folds what did not change, but for a few lines around each change. */
export function fold(lines: DiffLine[]): Block[] {
  let before = 0;
  let after = 0;
  const numbered = lines.map((line): Numbered => {
    if (line.kind !== "+") before += 1;
    if (line.kind !== "-") after += 1;
    return { ...line, before: line.kind === "+" ? 0 : before, after: line.kind === "-" ? 0 : after };
  });
  const near = new Uint8Array(numbered.length);
  for (const [at, line] of numbered.entries()) {
    if (line.kind === " ") continue;
    near.fill(1, Math.max(0, at - AROUND), at + AROUND + 1);
  }
  const blocks: Block[] = [];
  for (const [at, line] of numbered.entries()) {
    const folded = near[at] === 0;
    const last = blocks.at(-1);
    if (last && last.folded === folded) last.lines.push(line);
    else blocks.push({ folded, lines: [line] });
  }
  // One line costs as much room as the button that would hide it.
  return blocks.map((block) => (block.lines.length === 1 ? { ...block, folded: false } : block));
}

/** What changed in a plugin's files since they were allowed. */
export function Difference({ app, id }: { app: string; id: string }) {
  const loaded = useLoaded<Shown>((a) => a.difference(app, id));
  if (!loaded.value) {
    return loaded.error ? (
      <ErrorNote error={loaded.error} retry={loaded.reload} />
    ) : (
      <p role="status">{t.difference.loading}</p>
    );
  }
  const { files, before } = loaded.value;
  if (files.length === 0) return <p>{t.difference.none}</p>;
  const count = (kind: string) =>
    files.reduce((sum, file) => sum + file.lines.filter((line) => line.kind === kind).length, 0);
  return (
    <div className="stack tight">
      {before === "" ? <p className="note warn">{t.difference.noBefore}</p> : null}
      <p className="quiet">
        {t.difference.summary(
          t.difference.files(files.length),
          t.difference.lines(count("+")),
          t.difference.lines(count("-")),
        )}
      </p>
      {files.map((file) => (
        <OneFile key={file.path} file={file} />
      ))}
      <p className="quiet">
        {t.difference.unseen} <CodeLine text={"\u202e"} />
      </p>
    </div>
  );
}

function OneFile({ file }: { file: DiffFile }) {
  const blocks = useMemo(() => fold(file.lines), [file.lines]);
  const [most, setMost] = useState(AT_ONCE);
  let drawn = 0;
  const rows = blocks.map((block) => {
    const first = block.lines[0];
    const key = `${first?.before}-${first?.after}`;
    if (block.folded) return drawn < most ? <Folded key={key} lines={block.lines} /> : null;
    const lines = block.lines.slice(0, Math.max(0, most - drawn));
    drawn += block.lines.length;
    return lines.length > 0 ? <Lines key={key} lines={lines} /> : null;
  });
  const path = oneLine(file.path, 200);
  return (
    <section className="diff" aria-label={t.difference.label(path)}>
      <h4 className="mono">
        <Foreign text={file.path} longest={200} />
      </h4>
      {file.lines.every((line) => line.kind === " ") && !file.cut ? <p>{t.difference.nothing}</p> : null}
      <div className="diff-body">{rows}</div>
      {drawn > most ? (
        <button type="button" className="small" onClick={() => setMost(most + AT_ONCE * 5)}>
          {t.difference.more(drawn - most)}
        </button>
      ) : null}
      {file.cut ? <p className="note warn">{t.difference.cut}</p> : null}
    </section>
  );
}

function Folded({ lines }: { lines: Numbered[] }) {
  const [open, setOpen] = useState(false);
  if (open) return <Lines lines={lines} />;
  return (
    <button type="button" className="diff-fold" onClick={() => setOpen(true)}>
      {t.difference.unchanged(lines.length)}
    </button>
  );
}

const CLASSES = { " ": "same", "+": "plus", "-": "minus" } as const;

function Lines({ lines }: { lines: Numbered[] }) {
  return lines.map((line) => (
    <div key={`${line.before}-${line.after}`} className={`diff-line ${CLASSES[line.kind]}`}>
      <span className="diff-number" aria-hidden="true">
        {formatNumber(line.after || line.before)}
      </span>
      <span className="diff-kind" aria-hidden="true">
        {line.kind === "-" ? "−" : line.kind}
      </span>
      {line.kind === " " ? null : (
        <span className="offscreen">{line.kind === "+" ? t.difference.added : t.difference.removed}</span>
      )}
      <CodeLine text={line.text} />
    </div>
  ));
}
