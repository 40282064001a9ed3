import { useState } from "react";
import type { Me, Settings as SettingsValue, Theme } from "../api";
import { t } from "../i18n";
import { ErrorNote } from "../parts/error";
import { Field } from "../parts/field";
import { oneLine } from "../parts/text";
import { SETTINGS_PAGES, type SettingsPage, writeRoute } from "../route";
import { useAct, useEngine, useLoaded } from "../state";
import { showTheme } from "../theme";
import { SpeechSettings } from "./media/screen";
import { ModelSettings } from "./models/screen";

interface Props {
  page: SettingsPage;
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
          {SETTINGS_PAGES.map((page) => (
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
      {props.page === "models" ? (
        <ModelSettings {...props} />
      ) : props.page === "speech" ? (
        <SpeechSettings {...props} />
      ) : (
        <GeneralSettings {...props} />
      )}
    </main>
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
