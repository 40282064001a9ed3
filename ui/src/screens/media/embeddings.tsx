import { useState } from "react";
import type { Connections } from "../../api";
import type { Embeddings } from "../../api-media";
import { formatNumber, t } from "../../i18n";
import { ErrorNote } from "../../parts/error";
import { Field, Pick } from "../../parts/field";
import { oneLine } from "../../parts/text";
import { useAct, useEngine, useLoaded } from "../../state";

/** The model for embeddings, and a way to see that it works. */
export function EmbeddingsSettings() {
  const config = useLoaded<Embeddings>((a) => a.embeddings(), ["connections_changed"]);
  const connections = useLoaded<Connections>((a) => a.connections(), ["connections_changed"]);
  return (
    <section className="stack media" aria-labelledby="embeddings">
      <h2 id="embeddings">{t.embeddings.title}</h2>
      <p className="quiet">{t.embeddings.intro}</p>
      <ErrorNote error={config.error} retry={config.reload} />
      {config.value ? (
        <Form
          key={`${config.value.connection}/${config.value.model}`}
          config={config.value}
          connections={connections.value}
          onSaved={config.reload}
        />
      ) : null}
    </section>
  );
}

interface Props {
  config: Embeddings;
  connections: Connections | null;
  onSaved(): void;
}

function Form({ config, connections, onSaved }: Props) {
  const { api } = useEngine();
  const [model, setModel] = useState(config.model);
  const [connection, setConnection] = useState(config.connection);
  const [found, setFound] = useState<{ ok: boolean; dimensions: number | null; error: string } | null>(null);
  const saving = useAct();
  const probing = useAct();
  const changed = model.trim() !== config.model || connection !== config.connection;
  const list = connections?.connections ?? [];
  const probe = () =>
    void probing.run(async () => {
      setFound(null);
      setFound(await api.probeEmbeddings(model.trim(), connection));
    });
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        void saving.run(async () => {
          await api.setEmbeddings(model.trim(), connection);
          onSaved();
        });
      }}
    >
      <p>{config.available ? t.embeddings.available : t.embeddings.unavailable}</p>
      <div className="limits">
        <Field
          label={t.embeddings.model}
          hint={t.embeddings.modelHint}
          value={model}
          onValue={setModel}
          maxLength={200}
          autoComplete="off"
          spellCheck={false}
        />
        <Pick label={t.embeddings.connection} value={connection} onValue={setConnection}>
          <option value="">{t.embeddings.auto}</option>
          {connection === "" || list.some((one) => one.id === connection) ? null : (
            <option value={connection}>{oneLine(connection, 60)}</option>
          )}
          {list.map((one) => (
            <option key={one.id} value={one.id}>
              {oneLine(one.name, 60)}
            </option>
          ))}
        </Pick>
      </div>
      <ErrorNote error={saving.error} />
      <ErrorNote error={probing.error} />
      {found && !found.ok ? <ErrorNote error={new Error(found.error || t.error.crashed)} /> : null}
      <div className="row wrap">
        <button type="submit" disabled={saving.busy || !changed || model.trim() === ""}>
          {t.common.save}
        </button>
        <button type="button" disabled={probing.busy} onClick={probe}>
          {t.embeddings.probe}
        </button>
        <span role="status" className="quiet">
          {probing.busy
            ? t.embeddings.probing
            : found?.ok
              ? found.dimensions === null
                ? t.embeddings.worksPlain
                : t.embeddings.works(formatNumber(found.dimensions))
              : null}
        </span>
      </div>
    </form>
  );
}
