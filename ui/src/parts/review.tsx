import { useState } from "react";
import { CallError, type Preview } from "../api";
import type { Permission } from "../api-plugins";
import { t } from "../i18n";
import { useAct, useEngine, useLoaded } from "../state";
import { Ask } from "./ask";
import { ErrorNote } from "./error";
import { Foreign, ForeignBlock, oneLine } from "./text";
import { Tile } from "./tile";

/** What an app asks for, each once: two plugins that ask for the same, for the same reason, are one thing to read. */
export function asksOf(preview: Preview): Permission[] {
  const asks = preview.plugins.flatMap((p) => p.permissions);
  const key = ({ sentence, hosts, reason }: Permission) => JSON.stringify([sentence, hosts, reason]);
  return [...new Map(asks.map((asked) => [key(asked), asked])).values()];
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
  const asks = asksOf(p);
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
      <section aria-label={t.review.lead(asks.length)} className="stack tight">
        <p className="strong">{t.review.lead(asks.length)}</p>
        {asks.length > 0 ? (
          <ul className="asks">
            {asks.map((asked) => (
              <li key={JSON.stringify([asked.sentence, asked.hosts, asked.reason])}>
                <Ask asked={asked} />
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
          {p.installed ? t.review.again(name) : act.busy ? t.review.adding : t.review.button(name, asks.length)}
        </button>
        {asks.length > 0 && !p.installed ? (
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
