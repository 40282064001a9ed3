import { useId, useState } from "react";
import type { AppCard, Connection, Models } from "../../api";
import { t } from "../../i18n";
import { ErrorNote } from "../../parts/error";
import { Field } from "../../parts/field";
import { Foreign, oneLine } from "../../parts/text";
import { useAct, useEngine, useLoaded } from "../../state";
import { found, MANY } from "./picker";

interface Props {
  apps: AppCard[];
  connections: Connection[];
  models: Models | null;
}

/** Which models each app, with its plugins, may ask. */
export function Access({ apps, connections, models }: Props) {
  return (
    <section className="stack tight" aria-labelledby="access">
      <h2 id="access">{t.access.title}</h2>
      <p className="quiet">{t.access.intro}</p>
      {apps.length === 0 ? <p className="quiet">{t.access.noApps}</p> : null}
      {apps.map((app) => (
        <OneApp key={app.id} app={app} connections={connections} models={models} />
      ))}
    </section>
  );
}

function OneApp({ app, connections, models }: { app: AppCard; connections: Connection[]; models: Models | null }) {
  const { api } = useEngine();
  const id = useId();
  const kept = useLoaded((a) => a.appModels(app.id).then((list) => ({ list })));
  const [draft, setDraft] = useState<{ list: string[] | null } | null>(null);
  const act = useAct();
  const list = draft ? draft.list : (kept.value?.list ?? null);
  const name = oneLine(app.name, 60) || t.common.unnamed;
  const toggle = (one: string, on: boolean) => {
    const rest = (list ?? []).filter((other) => other !== one);
    setDraft({ list: on ? [...rest, one] : rest });
  };
  const summary = list === null ? t.access.summaryAll : t.access.summarySome(list.length);
  const known = (one: string) =>
    connections.some((connection) => connection.id === one) || models?.models.some((model) => model.ref === one);
  return (
    <details className="panel" aria-labelledby={id}>
      <summary id={id}>
        <bdi>{name}</bdi>: {kept.value || draft ? summary : t.common.loading}
      </summary>
      <form
        className="stack tight"
        onSubmit={(event) => {
          event.preventDefault();
          void act.run(async () => {
            kept.set({ list: await api.setAppModels(app.id, list) });
            setDraft(null);
          });
        }}
      >
        <ErrorNote error={kept.error} retry={kept.reload} />
        <fieldset className="choices column">
          <legend className="offscreen">{t.access.of(name)}</legend>
          <label>
            <input type="radio" name={`${id}-all`} checked={list === null} onChange={() => setDraft({ list: null })} />
            {t.access.all}
          </label>
          <label>
            <input
              type="radio"
              name={`${id}-all`}
              checked={list !== null}
              onChange={() => setDraft({ list: list ?? [] })}
            />
            {t.access.some}
          </label>
        </fieldset>
        {list === null ? null : (
          <ul className="access-list">
            {connections.map((connection) => (
              <li key={connection.id}>
                <Tick
                  on={list.includes(connection.id)}
                  onChange={(on) => toggle(connection.id, on)}
                  label={t.access.whole(oneLine(connection.name, 60))}
                />
                {list.includes(connection.id) ? null : (
                  <SingleModels connection={connection} models={models} list={list} toggle={toggle} />
                )}
              </li>
            ))}
            {list
              .filter((one) => !known(one))
              .map((one) => (
                <li key={one}>
                  <Tick on onChange={(on) => toggle(one, on)} label={`${oneLine(one, 120)} (${t.access.gone})`} />
                </li>
              ))}
            {list.length === 0 ? <li className="quiet">{t.access.none}</li> : null}
          </ul>
        )}
        <ErrorNote error={act.error} />
        <div>
          <button
            type="submit"
            className="small"
            aria-label={t.access.save(name)}
            disabled={act.busy || draft === null}
          >
            {t.common.save}
          </button>
          <span role="status" className="offscreen">
            {draft === null && kept.value && !act.busy ? t.settings.saved : null}
          </span>
        </div>
      </form>
    </details>
  );
}

function Tick({ on, onChange, label }: { on: boolean; onChange(on: boolean): void; label: string }) {
  return (
    <label className="tick">
      <input type="checkbox" checked={on} onChange={(event) => onChange(event.target.checked)} />
      <bdi>{label}</bdi>
    </label>
  );
}

interface SingleProps {
  connection: Connection;
  models: Models | null;
  list: string[];
  toggle(one: string, on: boolean): void;
}

function SingleModels({ connection, models, list, toggle }: SingleProps) {
  const [query, setQuery] = useState("");
  const own = models?.models.filter((model) => model.ref.startsWith(`${connection.id}/`)) ?? [];
  if (own.length === 0) return null;
  const chosen = own.filter((model) => list.includes(model.ref));
  const rest = found(own, query).filter((model) => !list.includes(model.ref));
  const many = own.length > MANY;
  return (
    <details open={chosen.length > 0 || undefined}>
      <summary>{t.access.single}</summary>
      {many ? (
        <div className="short-field">
          <Field label={t.picker.search} type="search" value={query} onValue={setQuery} />
        </div>
      ) : null}
      <ul className="access-list">
        {[...chosen, ...rest.slice(0, many ? MANY : own.length)].map((model) => (
          <li key={model.ref}>
            <label className="tick">
              <input
                type="checkbox"
                checked={list.includes(model.ref)}
                onChange={(event) => toggle(model.ref, event.target.checked)}
              />
              <Foreign text={model.label} longest={120} />
            </label>
          </li>
        ))}
      </ul>
    </details>
  );
}
