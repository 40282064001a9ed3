import { useEffect, useRef, useState } from "react";
import type { Connections, Launch, Models, Providers, Settings } from "../../api";
import { t } from "../../i18n";
import { ErrorNote } from "../../parts/error";
import { Pick } from "../../parts/field";
import { Foreign, oneLine } from "../../parts/text";
import { useAct, useEngine, useLoaded } from "../../state";
import { Access } from "./access";
import { AddConnection } from "./add";
import { OneConnection } from "./connection";
import { KeyPlace, LockedBanner } from "./keys";
import { ModelPick } from "./picker";
import "./models.css";

const LEVELS = ["", "off", "minimal", "low", "medium", "high", "xhigh", "max"] as const;

interface Props {
  settings: Settings;
  onSettings(settings: Settings): void;
}

/** Settings → Models: the model for apps, the connections with their keys, and what each app may use. */
export function ModelSettings({ settings, onSettings }: Props) {
  const connections = useLoaded<Connections>((a) => a.connections(), ["connections_changed"]);
  const models = useLoaded<Models>((a) => a.models(), ["connections_changed"]);
  const providers = useLoaded<Providers>((a) => a.providers());
  const launch = useLoaded<Launch>((a) => a.launch(), ["apps_changed"]);
  const [adding, setAdding] = useState(false);
  const [notice, setNotice] = useState("");
  const heading = useRef<HTMLHeadingElement>(null);
  const wasAdding = useRef(false);
  useEffect(() => {
    if (adding) heading.current?.focus();
    else if (wasAdding.current) document.getElementById("add-connection")?.focus();
    wasAdding.current = adding;
  }, [adding]);
  const changed = (said: string) => {
    setNotice(said);
    connections.reload();
    models.reload();
  };
  const keys = connections.value?.keys ?? null;
  return (
    <>
      {keys ? <LockedBanner keys={keys} onDone={() => changed("")} /> : null}
      <Defaults settings={settings} onSettings={onSettings} models={models.value} />
      <ErrorNote error={models.error} retry={models.reload} />
      {models.value && models.value.errors.length > 0 ? <Unlisted models={models.value} /> : null}
      <section className="stack tight" aria-labelledby="connections">
        <h2 id="connections">{t.settings.connections}</h2>
        <div aria-live="polite" className="live">
          {notice ? (
            <p className="note">
              <Foreign text={notice} longest={1000} />
            </p>
          ) : null}
        </div>
        <ErrorNote error={connections.error} retry={connections.reload} />
        {connections.value?.connections.length === 0 ? <p className="quiet">{t.settings.noConnections}</p> : null}
        {connections.value?.connections.map((connection) => (
          <OneConnection
            key={connection.id}
            connection={connection}
            keys={keys}
            providers={providers.value}
            models={models.value}
            onChanged={changed}
          />
        ))}
        {adding ? (
          <div className="panel stack">
            <h2 ref={heading} tabIndex={-1}>
              {t.settings.add}
            </h2>
            <AddConnection
              keys={keys}
              onCancel={() => setAdding(false)}
              onSaved={(saved) => {
                setAdding(false);
                changed(saved.notice);
              }}
            />
          </div>
        ) : (
          <div>
            <button type="button" id="add-connection" className="primary" onClick={() => setAdding(true)}>
              {t.settings.add}
            </button>
          </div>
        )}
      </section>
      {connections.value && launch.value ? (
        <Access apps={launch.value.apps} connections={connections.value.connections} models={models.value} />
      ) : null}
      <ErrorNote error={launch.error} retry={launch.reload} />
      {keys ? <KeyPlace keys={keys} onChanged={changed} /> : null}
    </>
  );
}

function Defaults({ settings, onSettings, models }: Props & { models: Models | null }) {
  const { api } = useEngine();
  const act = useAct();
  const change = (part: Partial<Settings>) =>
    void act.run(async () => {
      onSettings(await api.change(part));
    });
  const level = LEVELS.find((one) => one === (settings.reasoning === "med" ? "medium" : settings.reasoning)) ?? "";
  return (
    <section className="stack defaults" aria-label={t.settings.defaultModel}>
      {models ? (
        <ModelPick
          label={t.settings.defaultModel}
          hint={t.settings.defaultHint}
          models={models.models}
          chosen={settings.model ?? models.default ?? ""}
          onChoose={(model) => change({ model })}
        />
      ) : (
        <p className="quiet" role="status">
          {t.settings.testing}
        </p>
      )}
      <Pick
        label={t.picker.reasoning}
        hint={t.picker.reasoningHint}
        value={level}
        onValue={(one) => change({ reasoning: one === "" ? null : one })}
      >
        {LEVELS.map((one) => (
          <option key={one} value={one}>
            {t.picker.levels[one]}
          </option>
        ))}
      </Pick>
      <ErrorNote error={act.error} />
    </section>
  );
}

/** Connections that could not say which models they have. */
function Unlisted({ models }: { models: Models }) {
  return (
    <div className="note warn">
      <p className="strong">{t.settings.failedList}</p>
      <ul>
        {models.errors.map((e) => (
          <li key={e.connection}>
            {e.error.startsWith(`${e.connectionName}: `) ? null : (
              <>
                <bdi>{oneLine(e.connectionName || e.connection, 80)}</bdi>:{" "}
              </>
            )}
            <Foreign text={e.error} longest={1000} />
          </li>
        ))}
      </ul>
    </div>
  );
}
