import { useState } from "react";
import type { DiffFile, DiffLine, Difference as Shown } from "../../api-plugins";
import { t } from "../../i18n";
import { ErrorNote } from "../../parts/error";
import { CodeLine, Foreign, oneLine } from "../../parts/text";
import { useLoaded } from "../../state";

/** Lines drawn at once; the others come when they are asked for. */
const AT_ONCE = 600;

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
  const { before } = loaded.value;
  const files = loaded.value.files.filter((file) => file.cut || file.lines.some((line) => "+-".includes(line.kind)));
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
  const [most, setMost] = useState(AT_ONCE);
  const left = file.lines.length - most;
  return (
    <section className="diff" aria-label={t.difference.label(oneLine(file.path, 200))}>
      <h4 className="mono">
        <Foreign text={file.path} longest={200} />
      </h4>
      <div className="diff-body">
        {file.lines.slice(0, most).map((line, at) => (
          <Line key={`${at} ${line.kind}`} line={line} />
        ))}
      </div>
      {left > 0 ? (
        <button type="button" className="small" onClick={() => setMost(most + AT_ONCE * 5)}>
          {t.difference.more(left)}
        </button>
      ) : null}
      {file.cut ? <p className="note warn">{t.difference.cut}</p> : null}
    </section>
  );
}

const CLASSES = { " ": "same", "+": "plus", "-": "minus" } as const;

function Line({ line }: { line: DiffLine }) {
  if (line.kind === "gap") return <p className="diff-gap">{t.difference.gap}</p>;
  return (
    <div className={`diff-line ${CLASSES[line.kind]}`}>
      <span className="diff-kind" aria-hidden="true">
        {line.kind === "-" ? "−" : line.kind}
      </span>
      {line.kind === " " ? null : (
        <span className="offscreen">{line.kind === "+" ? t.difference.added : t.difference.removed}</span>
      )}
      <CodeLine text={line.text} />
    </div>
  );
}
