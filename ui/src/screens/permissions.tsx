import type { Plugin } from "../api";
import { t } from "../i18n";
import { Dialog } from "../parts/dialog";
import { ErrorNote } from "../parts/error";
import { Foreign, ForeignBlock, oneLine } from "../parts/text";
import { useAct, useEngine, useLoaded } from "../state";

interface Props {
  id: string;
  name: string;
  onClose(): void;
  onChanged(): void;
}

/** What an app's plugins ask for, what of it is allowed, and the button that allows the rest. */
export function Permissions({ id, name, onClose, onChanged }: Props) {
  const plugins = useLoaded<Plugin[]>((a) => a.plugins(id), ["apps_changed"]);
  const changed = () => {
    plugins.reload();
    onChanged();
  };
  return (
    <Dialog title={t.permissions.title(oneLine(name, 60))} onClose={onClose} wide>
      <div className="stack">
        <ErrorNote error={plugins.error} retry={plugins.reload} />
        {!plugins.value && !plugins.error ? <p role="status">{t.common.loading}</p> : null}
        {plugins.value?.length === 0 ? <p>{t.permissions.none}</p> : null}
        {plugins.value?.map((plugin) => (
          <OnePlugin key={plugin.globalId} plugin={plugin} onChanged={changed} />
        ))}
      </div>
    </Dialog>
  );
}

function OnePlugin({ plugin, onChanged }: { plugin: Plugin; onChanged(): void }) {
  const { api } = useEngine();
  const act = useAct();
  const waiting = plugin.permissions.filter((asked) => asked.state !== "granted");
  // What waits stands on top: it is what there is to decide.
  const ordered = [...waiting, ...plugin.permissions.filter((asked) => asked.state === "granted")];
  const allow = () =>
    void act.run(async () => {
      const capabilities = plugin.permissions.map((asked) => asked.capability);
      await api.approve(plugin.globalId, plugin.hash, capabilities);
      onChanged();
    });
  return (
    <section className="stack tight" aria-label={oneLine(plugin.name, 80)}>
      <h3>
        <Foreign text={plugin.name} longest={80} />{" "}
        {plugin.version ? <span className="quiet">{oneLine(plugin.version, 40)}</span> : null}
      </h3>
      {plugin.description ? (
        <p className="quiet">
          <Foreign text={plugin.description} longest={300} />
        </p>
      ) : null}
      {plugin.error ? (
        <div className="note bad">
          <p className="strong">{t.permissions.broken}</p>
          <ForeignBlock className="pre" text={plugin.error} />
        </div>
      ) : null}
      {ordered.length === 0 ? <p>{t.permissions.asksNothing}</p> : null}
      <ul className="asks">
        {ordered.map((asked) => (
          <li key={asked.capability} className={asked.state}>
            <Foreign text={asked.sentence} />
            <span className={`state ${asked.state}`}>{t.permissions.state[asked.state]}</span>
            <details>
              <summary>{t.common.details}</summary>
              <p className="mono">
                <Foreign text={asked.capability} longest={400} />
              </p>
            </details>
          </li>
        ))}
      </ul>
      <ErrorNote error={act.error} />
      {waiting.length > 0 ? (
        <div className="stack tight">
          <div>
            <button type="button" className="primary" disabled={act.busy} onClick={allow}>
              {t.permissions.approve(waiting.length)}
            </button>
          </div>
          <p className="quiet">
            {t.permissions.hash} <span className="mono">{oneLine(plugin.hash, 128)}</span>
          </p>
        </div>
      ) : null}
    </section>
  );
}
