import { useState } from "react";
import type { Connection, Connections, Me, Models, Settings as SettingsValue, Theme } from "../api";
import { t } from "../i18n";
import { ConnectionForm } from "../parts/connection-form";
import { ErrorNote } from "../parts/error";
import { Field, Pick } from "../parts/field";
import { ModelOptions } from "../parts/models";
import { Foreign, oneLine } from "../parts/text";
import { writeRoute } from "../route";
import { useAct, useEngine, useLoaded } from "../state";
import { showTheme } from "../theme";

interface Props {
  page: "models" | "general";
  settings: SettingsValue;
  me: Me;
  onSettings(settings: SettingsValue): void;
  onMe(me: Me): void;
}

export default function Settings(props: Props) {
  return (
    <main id="content" className="stack loose">
      <div className="row wrap head">
        <h1 className="grow">{t.settings.title}</h1>
        <nav className="tabs" aria-label={t.settings.title}>
          {(["models", "general"] as const).map((page) => (
            <a
              key={page}
              href={writeRoute({ screen: "settings", page })}
              aria-current={props.page === page ? "page" : undefined}
            >
              {t.settings[page]}
            </a>
          ))}
        </nav>
      </div>
      {props.page === "models" ? <ModelSettings {...props} /> : <GeneralSettings {...props} />}
    </main>
  );
}

function ModelSettings({ settings, onSettings }: Props) {
  const { api } = useEngine();
  const connections = useLoaded<Connections>((a) => a.connections(), ["connections_changed"]);
  const models = useLoaded<Models>((a) => a.models(), ["connections_changed"]);
  const [adding, setAdding] = useState(false);
  const [notice, setNotice] = useState("");
  const act = useAct();
  const changed = (said: string) => {
    setNotice(said);
    connections.reload();
    models.reload();
  };
  const choose = (model: string) =>
    void act.run(async () => {
      onSettings(await api.change({ model }));
    });
  const chosen = settings.model ?? models.value?.default ?? "";
  return (
    <>
      <section className="stack tight">
        {models.value ? (
          <Pick label={t.settings.defaultModel} hint={t.settings.defaultHint} value={chosen} onValue={choose}>
            <ModelOptions models={models.value.models} chosen={chosen} />
          </Pick>
        ) : models.error ? (
          <ErrorNote error={models.error} retry={models.reload} />
        ) : (
          <p className="quiet" role="status">
            {t.settings.testing}
          </p>
        )}
        <ErrorNote error={act.error} />
        {models.value && models.value.errors.length > 0 ? (
          <div className="note warn">
            <p className="strong">{t.settings.failedList}</p>
            <ul>
              {models.value.errors.map((e) => (
                <li key={e.connection}>
                  {e.error.startsWith(`${e.connectionName}: `) ? null : (
                    <>
                      <Foreign text={e.connectionName || e.connection} longest={80} />:{" "}
                    </>
                  )}
                  <Foreign text={e.error} longest={1000} />
                </li>
              ))}
            </ul>
          </div>
        ) : null}
      </section>
      <section className="stack tight" aria-labelledby="connections">
        <h2 id="connections">{t.settings.connections}</h2>
        {notice ? (
          <p className="note warn" role="status">
            <Foreign text={notice} longest={1000} />
          </p>
        ) : null}
        <ErrorNote error={connections.error} retry={connections.reload} />
        {connections.value?.connections.length === 0 ? <p className="quiet">{t.settings.noConnections}</p> : null}
        {connections.value?.connections.map((connection) => (
          <OneConnection
            key={connection.id}
            connection={connection}
            keychain={connections.value?.keychain ?? null}
            onChanged={changed}
          />
        ))}
        {adding ? (
          <div className="panel">
            <h3>{t.settings.add}</h3>
            <ConnectionForm
              keychain={connections.value?.keychain ?? null}
              onCancel={() => setAdding(false)}
              onSaved={(saved) => {
                setAdding(false);
                changed(saved.notice);
              }}
            />
          </div>
        ) : (
          <div>
            <button type="button" className="primary" onClick={() => setAdding(true)}>
              {t.settings.add}
            </button>
          </div>
        )}
      </section>
    </>
  );
}

interface ConnectionProps {
  connection: Connection;
  keychain: Connections["keychain"] | null;
  onChanged(notice: string): void;
}

function OneConnection({ connection, keychain, onChanged }: ConnectionProps) {
  const { api } = useEngine();
  const [mode, setMode] = useState<"shown" | "edit" | "remove">("shown");
  const [tested, setTested] = useState<{ count: number; error: string } | null>(null);
  const act = useAct();
  const name = oneLine(connection.name, 60) || t.common.unnamed;
  const test = () =>
    void act.run(async () => {
      setTested(null);
      const models = await api.models();
      const failed = models.errors.find((e) => e.connection === connection.id);
      const count = models.models.filter((model) => model.ref.startsWith(`${connection.id}/`)).length;
      setTested({ count, error: failed?.error ?? "" });
    });
  const remove = () =>
    void act.run(async () => {
      await api.removeConnection(connection.id);
      onChanged("");
    });
  const forget = () =>
    void act.run(async () => {
      await api.forgetKey(connection.id);
      onChanged("");
    });
  if (mode === "edit") {
    return (
      <div className="panel">
        <h3>{t.settings.editOf(name)}</h3>
        <ConnectionForm
          connection={connection}
          keychain={keychain}
          onCancel={() => setMode("shown")}
          onSaved={(saved) => {
            setMode("shown");
            setTested(null);
            onChanged(saved.notice);
          }}
        />
      </div>
    );
  }
  return (
    <div className="panel stack tight">
      <div className="row wrap">
        <div className="grow">
          <p className="strong">
            <bdi>{name}</bdi>
          </p>
          <p className="quiet mono">
            <Foreign text={connection.baseUrl} longest={200} />
          </p>
          <p className="quiet">
            {connection.local ? `${t.settings.local} · ` : null}
            {t.settings.keyState[connection.hasKey ? (connection.keyKept ?? "run") : "none"]}
          </p>
        </div>
        <div className="row wrap">
          <button
            type="button"
            className="small"
            aria-label={t.settings.testOf(name)}
            disabled={act.busy}
            onClick={test}
          >
            {t.settings.test}
          </button>
          <button type="button" className="small" aria-label={t.settings.editOf(name)} onClick={() => setMode("edit")}>
            {t.settings.edit}
          </button>
          {connection.hasKey ? (
            <button type="button" className="small" disabled={act.busy} onClick={forget}>
              {t.settings.forgetKey}
            </button>
          ) : null}
          <button
            type="button"
            className="small"
            aria-label={t.settings.removeOf(name)}
            onClick={() => setMode("remove")}
          >
            {t.settings.remove}
          </button>
        </div>
      </div>
      <div aria-live="polite">
        {act.busy && mode === "shown" ? <p className="quiet">{t.settings.testing}</p> : null}
        {tested?.error ? <ErrorNote error={new Error(tested.error)} /> : null}
        {tested && !tested.error ? (
          <p className="note good">{tested.count > 0 ? t.settings.testOk(tested.count) : t.settings.testEmpty}</p>
        ) : null}
      </div>
      {mode === "remove" ? (
        <div className="note row wrap">
          <span className="grow">{t.settings.removeAsk(name)}</span>
          <button type="button" className="small danger" disabled={act.busy} onClick={remove}>
            {t.settings.remove}
          </button>
          <button type="button" className="small" onClick={() => setMode("shown")}>
            {t.common.cancel}
          </button>
        </div>
      ) : null}
      <ErrorNote error={act.error} />
    </div>
  );
}

function GeneralSettings({ settings, me, onSettings, onMe }: Props) {
  const { api, backend } = useEngine();
  const launch = useLoaded((a) => a.launch());
  const [name, setName] = useState(me.username);
  const [password, setPassword] = useState("");
  const [saved, setSaved] = useState(false);
  const naming = useAct();
  const theming = useAct();
  const rename = () =>
    void naming.run(async () => {
      setSaved(false);
      await api.rename(name.trim(), me.hasPassword ? password : undefined);
      setPassword("");
      setSaved(true);
      onMe({ ...me, username: name.trim() });
    });
  const choose = (theme: Theme) => {
    showTheme(theme);
    void theming
      .run(async () => onSettings(await api.change({ theme })))
      .then((worked) => {
        if (!worked) showTheme(settings.theme);
      });
  };
  return (
    <>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          rename();
        }}
      >
        <Field
          label={t.settings.yourName}
          value={name}
          onValue={(value) => {
            setName(value);
            setSaved(false);
          }}
          maxLength={32}
          autoComplete="name"
          required
        />
        {me.hasPassword && name.trim() !== me.username ? (
          <Field
            label={t.settings.currentPassword}
            value={password}
            onValue={setPassword}
            type="password"
            autoComplete="current-password"
            required
          />
        ) : null}
        <ErrorNote error={naming.error} />
        <div className="row">
          <button type="submit" disabled={naming.busy || name.trim() === "" || name.trim() === me.username}>
            {t.common.save}
          </button>
          <span role="status" className="quiet">
            {saved ? t.settings.saved : null}
          </span>
        </div>
      </form>
      <fieldset className="choices">
        <legend>{t.settings.theme}</legend>
        {(["system", "light", "dark"] as const).map((theme) => (
          <label key={theme}>
            <input type="radio" name="theme" checked={settings.theme === theme} onChange={() => choose(theme)} />
            {t.settings.themes[theme]}
          </label>
        ))}
      </fieldset>
      <ErrorNote error={theming.error} />
      {me.hasPassword ? <PasswordForm username={me.username} /> : null}
      <section className="stack tight" aria-labelledby="about">
        <h2 id="about">{t.settings.about}</h2>
        <p>{t.settings.version(oneLine(launch.value?.version ?? "", 60))}</p>
        <p className="quiet">{t.settings.aboutText}</p>
        <div className="row wrap">
          <button
            type="button"
            className="small"
            onClick={() => void theming.run(async () => onSettings(await api.change({ onboarded: false })))}
          >
            {t.settings.again}
          </button>
          {backend.quit ? (
            <button type="button" className="small" onClick={() => void theming.run(async () => backend.quit?.())}>
              {t.settings.quit}
            </button>
          ) : null}
        </div>
      </section>
    </>
  );
}

function PasswordForm({ username }: { username: string }) {
  const { api } = useEngine();
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const [saved, setSaved] = useState(false);
  const act = useAct();
  return (
    <details className="panel">
      <summary>{t.settings.changePassword}</summary>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          setSaved(false);
          void act.run(async () => {
            await api.password(current, next);
            setCurrent("");
            setNext("");
            setSaved(true);
          });
        }}
      >
        {/* For the browser's password store: which name the new password belongs to. */}
        <input
          className="offscreen"
          type="text"
          autoComplete="username"
          value={username}
          readOnly
          tabIndex={-1}
          aria-hidden
        />
        <Field
          label={t.settings.currentPassword}
          value={current}
          onValue={setCurrent}
          type="password"
          autoComplete="current-password"
          required
        />
        <Field
          label={t.settings.newPassword}
          hint={t.signIn.passwordHint}
          value={next}
          onValue={setNext}
          type="password"
          autoComplete="new-password"
          minLength={8}
          required
        />
        <ErrorNote error={act.error} />
        <div className="row">
          <button type="submit" disabled={act.busy}>
            {t.settings.changePassword}
          </button>
          <span role="status" className="quiet">
            {saved ? t.settings.saved : null}
          </span>
        </div>
      </form>
    </details>
  );
}
