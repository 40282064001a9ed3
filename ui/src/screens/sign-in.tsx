import { useEffect, useRef, useState } from "react";
import { CallError } from "../api";
import { t } from "../i18n";
import { ErrorNote } from "../parts/error";
import { Field } from "../parts/field";
import { useAct, useEngine, useLoaded } from "../state";

/** Only in a browser: sign in, or give the owner a name and password with the setup token from the address. */
export function SignIn({ token, onDone }: { token: string | null; onDone(): void }) {
  const { api } = useEngine();
  const users = useLoaded((a) => a.users());
  const [name, setName] = useState<string | null>(null);
  const [password, setPassword] = useState("");
  const act = useAct();
  const form = useRef<HTMLFormElement>(null);
  // The form is all there is on this page, so it begins in the first field that is still to be filled.
  const there = users.value !== null;
  useEffect(() => {
    if (there) [...(form.current?.querySelectorAll("input") ?? [])].find((input) => input.value === "")?.focus();
  }, [there]);
  if (!users.value) {
    return (
      <main className="narrow" id="content">
        {users.error ? <ErrorNote error={users.error} retry={users.reload} /> : <p role="status">{t.common.loading}</p>}
      </main>
    );
  }
  const { setup } = users.value;
  const only = users.value.users.length === 1 ? users.value.users[0] : undefined;
  const username = name ?? only ?? "";
  if (setup && !token) {
    return (
      <main className="narrow" id="content">
        <h1>{t.signIn.setupTitle}</h1>
        <div className="note">
          <p className="strong">{t.signIn.needLink}</p>
          <p>{t.signIn.needLinkTodo}</p>
        </div>
        <button type="button" onClick={users.reload}>
          {t.common.retry}
        </button>
      </main>
    );
  }
  const submit = () =>
    act.run(async () => {
      if (setup && token) await api.setup(token, username.trim(), password);
      else await api.login(username.trim(), password);
      setPassword("");
      onDone();
    });
  const status = act.error instanceof CallError ? act.error.status : 0;
  const code = act.error instanceof CallError ? act.error.code : null;
  const what =
    setup && status === 403
      ? t.signIn.badToken
      : setup && status === 409
        ? t.signIn.setupDone
        : !setup && status === 401
          ? t.signIn.wrong
          : status === 429
            ? t.signIn.tooMany
            : null;
  return (
    <main className="narrow" id="content">
      <h1>{setup ? t.signIn.setupTitle : t.signIn.title}</h1>
      {setup ? <p>{t.signIn.setupIntro}</p> : null}
      <form
        ref={form}
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <Field
          label={t.signIn.name}
          value={username}
          onValue={setName}
          autoComplete="username"
          required
          maxLength={32}
        />
        <Field
          label={t.signIn.password}
          {...(setup ? { hint: t.signIn.passwordHint, minLength: 8 } : {})}
          value={password}
          onValue={setPassword}
          type="password"
          autoComplete={setup ? "new-password" : "current-password"}
          required
        />
        {what && code !== "unreachable" ? (
          <ErrorNote
            error={act.error}
            what={what}
            {...(setup && status === 403 ? { todo: t.signIn.badTokenTodo } : {})}
            {...(status === 409 ? { retry: users.reload } : {})}
          />
        ) : (
          <ErrorNote error={act.error} />
        )}
        <button type="submit" className="primary" disabled={act.busy}>
          {setup ? t.signIn.setupSubmit : t.signIn.submit}
        </button>
      </form>
    </main>
  );
}
