import { useId, useState } from "react";
import type { Plugin, PluginSecret } from "../../api-plugins";
import { t } from "../../i18n";
import { ErrorNote } from "../../parts/error";
import { Field } from "../../parts/field";
import { Icon } from "../../parts/icon";
import { Foreign, oneLine } from "../../parts/text";
import { useAct, useEngine, useLoaded } from "../../state";
import { useKeySaving } from "../models/keys";

/** The secrets that a plugin wants to send, each for one origin. What is saved never comes back to this page. */
export function Secrets({ plugin, onChanged }: { plugin: Plugin; onChanged(): void }) {
  const id = useId();
  const connections = useLoaded((a) => (plugin.secrets.length > 0 ? a.connections() : Promise.resolve(null)));
  const keys = connections.value?.keys;
  if (plugin.secrets.length === 0) return null;
  return (
    <section className="stack tight" aria-labelledby={id}>
      <h4 id={id}>{t.secrets.title}</h4>
      <p className="quiet">
        {t.secrets.intro} {keys ? t.secrets.kept[keys.store ?? "none"] : null}
      </p>
      {plugin.secrets.map((secret) => (
        // A new origin is a new question: what was typed for the old one goes.
        <Secret key={`${secret.name} ${secret.origin}`} plugin={plugin} secret={secret} onChanged={onChanged} />
      ))}
    </section>
  );
}

function Secret({ plugin, secret, onChanged }: { plugin: Plugin; secret: PluginSecret; onChanged(): void }) {
  const { api } = useEngine();
  const act = useAct();
  const { saving, dialog } = useKeySaving();
  const [value, setValue] = useState("");
  const [replacing, setReplacing] = useState(false);
  const name = oneLine(secret.name, 60);
  const save = () =>
    void act.run(async () => {
      await saving(() => api.saveSecret(plugin.globalId, secret.name, value, secret.origin));
      setValue("");
      setReplacing(false);
      onChanged();
    });
  const forget = () =>
    void act.run(async () => {
      await api.forgetSecret(plugin.globalId, secret.name);
      onChanged();
    });
  return (
    <div className="secret-row">
      <div className="row wrap">
        <div className="grow">
          <p className="strong">
            <Foreign text={secret.name} longest={80} />
          </p>
          <p>
            <span className="quiet">{t.secrets.origin}</span>{" "}
            <span className="host">
              <Foreign text={secret.origin} longest={300} />
            </span>
          </p>
          {secret.reason ? (
            <div className="ask-reason">
              <span className="quiet">{t.plugins.reason}</span>{" "}
              <q>
                <Foreign text={secret.reason} longest={400} />
              </q>
            </div>
          ) : null}
          <p className={`state ${secret.saved ? "granted" : secret.lost ? "stale" : "asked"}`}>
            <Icon name={secret.saved ? "allowed" : secret.lost ? "changed" : "asked"} />
            {secret.saved ? t.secrets.saved : secret.lost ? t.secrets.lost : t.secrets.missing}
          </p>
        </div>
        {(secret.saved || secret.lost) && !replacing ? (
          <>
            {secret.saved ? (
              <button
                type="button"
                className="small"
                aria-label={t.secrets.replaceOf(name)}
                onClick={() => setReplacing(true)}
              >
                {t.secrets.replace}
              </button>
            ) : null}
            <button
              type="button"
              className="small"
              aria-label={t.secrets.forgetOf(name)}
              disabled={act.busy}
              onClick={forget}
            >
              {t.secrets.forget}
            </button>
          </>
        ) : null}
      </div>
      {!secret.saved || replacing ? (
        <form
          className="secret-form"
          onSubmit={(event) => {
            event.preventDefault();
            if (value !== "") save();
          }}
        >
          <div className="grow">
            <Field
              label={t.secrets.value(name)}
              hint={secret.saved ? t.secrets.replaceHint : undefined}
              value={value}
              onValue={setValue}
              className="secret"
              autoComplete="off"
              spellCheck={false}
              autoCapitalize="off"
            />
          </div>
          <div className="row wrap">
            <button type="submit" aria-label={t.secrets.saveOf(name)} disabled={act.busy || value === ""}>
              {t.secrets.save}
            </button>
            {replacing ? (
              <button
                type="button"
                onClick={() => {
                  setValue("");
                  setReplacing(false);
                }}
              >
                {t.common.cancel}
              </button>
            ) : null}
          </div>
        </form>
      ) : null}
      <ErrorNote error={act.error} />
      {dialog}
    </div>
  );
}
