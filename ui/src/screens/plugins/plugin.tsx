import { useEffect, useRef, useState } from "react";
import { type Plugin, type PluginError, waitsForAnswer } from "../../api-plugins";
import { formatMoment, t } from "../../i18n";
import { CopyButton, ErrorNote } from "../../parts/error";
import { Icon } from "../../parts/icon";
import { Foreign, ForeignBlock, oneLine } from "../../parts/text";
import { useAct, useEngine } from "../../state";
import { Difference } from "./difference";
import { Permissions } from "./permissions";
import { Secrets } from "./secrets";

interface Props {
  app: string;
  plugin: Plugin;
  onChanged(): void;
}

/** One plugin: whether it runs, what changed, what it may do, its secrets and errors, and how to be rid of it. */
export function OnePlugin({ app, plugin, sought, onChanged }: Props & { sought: boolean }) {
  const section = useRef<HTMLElement>(null);
  useEffect(() => {
    if (sought) section.current?.scrollIntoView({ block: "start" });
  }, [sought]);
  const name = oneLine(plugin.name, 60);
  const marked = plugin.changed && plugin.permissions.some(waitsForAnswer);
  return (
    <section ref={section} className={marked ? "plugin changed" : "plugin"} aria-label={name}>
      <div className="plugin-head">
        <div className="grow">
          <h3>
            <Foreign text={plugin.name} longest={80} />{" "}
            {plugin.version ? <span className="quiet">{oneLine(plugin.version, 40)}</span> : null}
          </h3>
          {plugin.description ? (
            <p className="quiet">
              <Foreign text={plugin.description} longest={300} />
            </p>
          ) : null}
        </div>
        {/* What has no hash could not be read, and never runs. */}
        {plugin.hash === "" ? null : <Switch app={app} plugin={plugin} onChanged={onChanged} />}
      </div>
      {plugin.enabled || plugin.hash === "" ? null : <p className="quiet">{t.plugins.offNote}</p>}
      {plugin.error ? (
        <div className="note bad">
          <p className="strong">{t.plugins.broken}</p>
          <ForeignBlock className="pre" text={plugin.error} />
          <CopyButton text={plugin.error} />
        </div>
      ) : null}
      {plugin.changed ? <Changed app={app} plugin={plugin} first={sought} /> : null}
      <Permissions plugin={plugin} onChanged={onChanged} />
      <Secrets plugin={plugin} onChanged={onChanged} />
      <LastErrors errors={plugin.lastErrors} />
      <More app={app} plugin={plugin} onChanged={onChanged} />
    </section>
  );
}

function Switch({ app, plugin, onChanged }: Props) {
  const { api } = useEngine();
  const act = useAct();
  const set = (on: boolean) =>
    void act.run(async () => {
      await api.enable(app, plugin.id, on);
      onChanged();
    });
  return (
    <div>
      <label className="switch">
        <input
          type="checkbox"
          role="switch"
          aria-label={t.plugins.running(oneLine(plugin.name, 60))}
          aria-checked={plugin.enabled}
          checked={plugin.enabled}
          disabled={act.busy}
          onChange={(event) => set(event.target.checked)}
        />
        <span aria-hidden="true">{plugin.enabled ? t.plugins.on : t.plugins.off}</span>
      </label>
      <ErrorNote error={act.error} />
    </div>
  );
}

function Changed({ app, plugin, first }: { app: string; plugin: Plugin; first: boolean }) {
  const [open, setOpen] = useState(first);
  return (
    <>
      <div className="note warn">
        <p className="strong with-sign">
          <Icon name="changed" />
          {t.plugins.changed}
        </p>
        <p>{t.plugins.changedNote}</p>
        <button type="button" className="small" aria-expanded={open} onClick={() => setOpen(!open)}>
          {open ? t.plugins.hideDifference : t.plugins.showDifference}
        </button>
      </div>
      {/* By the hash: other files are compared afresh. */}
      {open ? <Difference key={plugin.hash} app={app} id={plugin.id} /> : null}
    </>
  );
}

function LastErrors({ errors }: { errors: PluginError[] }) {
  if (errors.length === 0) return null;
  return (
    <details>
      <summary>{t.errors.title(errors.length)}</summary>
      <ul className="last-errors">
        {errors.map((error, at) => {
          const when = formatMoment(error.at);
          return (
            <li key={`${error.at} ${at}`}>
              <div className="row wrap">
                <p className="grow quiet">
                  {when}{" "}
                  <span className="mono">
                    <Foreign text={error.target} longest={200} />
                  </span>
                </p>
                <CopyButton
                  text={`${when} ${error.target}\n${error.detail}`}
                  label={t.errors.copy}
                  name={t.errors.copyOf(when)}
                />
              </div>
              <ForeignBlock className="raw" text={error.detail} />
            </li>
          );
        })}
      </ul>
    </details>
  );
}

function More({ app, plugin, onChanged }: Props) {
  const { api } = useEngine();
  const act = useAct();
  const [asking, setAsking] = useState(false);
  const name = oneLine(plugin.name, 60);
  const remove = () =>
    void act.run(async () => {
      await api.removePlugin(app, plugin.id);
      onChanged();
    });
  const takeBack = () =>
    void act.run(async () => {
      await api.revoke(plugin.globalId);
      onChanged();
    });
  const granted = plugin.permissions.filter((asked) => asked.state === "granted" && asked.policy === "").length;
  return (
    <div className="stack tight">
      {asking ? (
        <div className="note bad" role="alert">
          <p className="strong">{t.plugins.removeAsk(name)}</p>
          <p>{t.plugins.removeFinal}</p>
          <div className="row wrap">
            <button type="button" onClick={() => setAsking(false)}>
              {t.plugins.removeNo}
            </button>
            <button type="button" className="danger" disabled={act.busy} onClick={remove}>
              {t.plugins.removeYes(name)}
            </button>
          </div>
        </div>
      ) : (
        <div className="row wrap">
          {granted > 1 ? (
            <button type="button" className="small" disabled={act.busy} onClick={takeBack}>
              {t.plugins.takeAllBack}
            </button>
          ) : null}
          <button type="button" className="small" onClick={() => setAsking(true)}>
            {t.plugins.remove}
          </button>
        </div>
      )}
      <ErrorNote error={act.error} />
    </div>
  );
}
