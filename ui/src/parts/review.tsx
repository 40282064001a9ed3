import { useState } from "react";
import { CallError, type Preview } from "../api";
import { t } from "../i18n";
import { useAct, useEngine, useLoaded } from "../state";
import { ErrorNote } from "./error";
import { Foreign, ForeignBlock, oneLine } from "./text";
import { Tile } from "./tile";

/** The sentences of an app, each once: two plugins that ask for the same are one thing to read. */
export function sentencesOf(preview: Preview): string[] {
  return [...new Set(preview.plugins.flatMap((p) => p.permissions.map((asked) => asked.sentence)))];
}

/** What an app from the box asks for, on one page, before anything of it is added. */
export function Review({ box, onAdded, onCancel }: { box: string; onAdded(id: string): void; onCancel(): void }) {
  const { api } = useEngine();
  const preview = useLoaded<Preview>((a) => a.preview(box));
  const [changed, setChanged] = useState(false);
  const act = useAct();
  const p = preview.value;
  const add = (grant: boolean) => {
    if (!p) return;
    setChanged(false);
    void act.run(async () => {
      try {
        onAdded((await api.addApp(box, p.head, grant)) || p.id);
      } catch (error) {
        if (!(error instanceof CallError && error.status === 409)) throw error;
        setChanged(true);
        preview.reload();
      }
    });
  };
  if (!p) {
    return preview.error ? (
      <ErrorNote error={preview.error} retry={preview.reload} />
    ) : (
      <p role="status">{t.common.loading}</p>
    );
  }
  const sentences = sentencesOf(p);
  const name = oneLine(p.name, 60);
  return (
    <div className="stack">
      <div className="row">
        <Tile id={p.id} name={p.name} />
        <div className="grow">
          <p className="strong">
            <Foreign text={p.name} longest={80} />
          </p>
          <p className="quiet">
            {p.version ? t.review.version(oneLine(p.version, 40)) : null}{" "}
            {p.author ? t.home.by(oneLine(p.author, 80)) : null}
          </p>
        </div>
      </div>
      {p.description ? (
        <p>
          <ForeignBlock text={p.description} />
        </p>
      ) : null}
      {changed ? (
        <p className="note warn" role="alert">
          {t.review.changed}
        </p>
      ) : null}
      <section aria-label={t.review.lead(sentences.length)} className="stack tight">
        <p className="strong">{t.review.lead(sentences.length)}</p>
        {sentences.length > 0 ? (
          <ul className="asks">
            {sentences.map((sentence) => (
              <li key={sentence}>
                <Foreign text={sentence} />
              </li>
            ))}
          </ul>
        ) : (
          <p>{t.review.nothing}</p>
        )}
        <p className="quiet">{t.review.page}</p>
      </section>
      <details>
        <summary>{t.review.exact}</summary>
        <dl className="facts">
          <dt>{t.review.head}</dt>
          <dd className="mono">{oneLine(p.head, 128)}</dd>
          {p.plugins.map((plugin) => (
            <div key={plugin.id} className="fact-group">
              <dt>{t.review.plugin}</dt>
              <dd>
                <Foreign text={plugin.name} longest={80} />
              </dd>
              {plugin.permissions.map((asked) => (
                <dd key={asked.capability} className="mono">
                  <Foreign text={asked.capability} longest={400} />
                </dd>
              ))}
              {plugin.hash ? (
                <>
                  <dt>{t.review.hash}</dt>
                  <dd className="mono">{oneLine(plugin.hash, 128)}</dd>
                </>
              ) : null}
            </div>
          ))}
        </dl>
      </details>
      <ErrorNote error={act.error} />
      <div className="row wrap">
        <button type="button" className="primary" disabled={act.busy || p.installed} onClick={() => add(true)}>
          {p.installed ? t.review.again(name) : act.busy ? t.review.adding : t.review.button(name, sentences.length)}
        </button>
        {sentences.length > 0 && !p.installed ? (
          <button type="button" disabled={act.busy} onClick={() => add(false)}>
            {t.review.without}
          </button>
        ) : null}
        <button type="button" onClick={onCancel}>
          {t.common.cancel}
        </button>
      </div>
    </div>
  );
}
