import { type ReactNode, useCallback, useState } from "react";
import { CallError, type KeyStore, type Keys } from "../../api";
import { t } from "../../i18n";
import { Dialog } from "../../parts/dialog";
import { ErrorNote } from "../../parts/error";
import { Field } from "../../parts/field";
import { Foreign } from "../../parts/text";
import { useAct, useEngine, useLoaded } from "../../state";

type Choice = "keychain" | "encrypted" | "run";

const SHORTEST = 8;

export function keyHint(keys: Keys | null): string {
  return keys ? t.keys.formHint[keys.store ?? "none"] : "";
}

export const isLocked = (keys: Keys): boolean =>
  (keys.store === "keychain" && keys.keychain.locked) ||
  (keys.store === "encrypted" && keys.encrypted.exists && !keys.encrypted.unlocked);

interface Waiting {
  locked: boolean;
  /** Called when keys can be saved. */
  go(): void;
  stop(): void;
}

/**
 * `saving` runs what saves a key. When the engine answers that the person has to choose where keys are kept first, or
 * that the place is locked, `dialog` asks, and the save is done again with what was typed.
 */
export function useKeySaving(): { saving<T>(save: () => Promise<T>): Promise<T>; dialog: ReactNode } {
  const [waiting, setWaiting] = useState<Waiting | null>(null);
  const saving = useCallback(async <T,>(save: () => Promise<T>): Promise<T> => {
    try {
      return await save();
    } catch (error) {
      const code = error instanceof CallError ? error.code : null;
      if (code !== "choose_key_store" && code !== "key_store_locked") throw error;
      try {
        await new Promise<void>((go, stop) =>
          setWaiting({ locked: code === "key_store_locked", go, stop: () => stop(error) }),
        );
      } finally {
        setWaiting(null);
      }
      return await save();
    }
  }, []);
  return { saving, dialog: waiting ? <ChooseDialog waiting={waiting} /> : null };
}

function ChooseDialog({ waiting }: { waiting: Waiting }) {
  const keys = useLoaded<Keys>((a) => a.keys());
  return (
    <Dialog title={waiting.locked ? t.keys.lockedTitle : t.keys.chooseTitle} onClose={waiting.stop}>
      <ErrorNote error={keys.error} retry={keys.reload} />
      {keys.value === null ? null : waiting.locked ? (
        <Unlock keys={keys.value} button={t.keys.unlockSave} onDone={waiting.go} />
      ) : (
        <>
          <p>{t.keys.chooseIntro}</p>
          {keys.value.keychain.reason ? (
            <p className="quiet">
              {t.keys.chooseWhy} <Foreign text={keys.value.keychain.reason} longest={400} />
            </p>
          ) : null}
          <ChooseForm keys={keys.value} button={t.keys.save} onDone={waiting.go} onCancel={waiting.stop} />
          <details>
            <summary>{t.keys.serverTitle}</summary>
            <p>{t.keys.server}</p>
          </details>
        </>
      )}
    </Dialog>
  );
}

interface ChooseProps {
  keys: Keys;
  button: string;
  onDone(notice: string): void;
  onCancel?: () => void;
}

function ChooseForm({ keys, button, onDone, onCancel }: ChooseProps) {
  const { api } = useEngine();
  const all: Choice[] = keys.keychain.usable ? ["keychain", "encrypted", "run"] : ["encrypted", "run"];
  const choices = all.filter((one) => one !== keys.store);
  const [choice, setChoice] = useState<Choice>(choices[0] ?? "run");
  const [passphrase, setPassphrase] = useState("");
  const [again, setAgain] = useState("");
  const [wrong, setWrong] = useState("");
  const act = useAct();
  // An existing file is opened with its own passphrase, which was chosen before.
  const known = keys.encrypted.exists;
  const submit = () => {
    const fault =
      choice !== "encrypted" || (known && keys.encrypted.unlocked)
        ? ""
        : [...passphrase].length < SHORTEST
          ? t.keys.short
          : !known && passphrase !== again
            ? t.keys.differ
            : "";
    setWrong(fault);
    if (fault !== "") return;
    void act.run(async () => {
      const notice = await api.chooseStore(choice, choice === "encrypted" ? passphrase : undefined);
      setPassphrase("");
      setAgain("");
      onDone(notice);
    });
  };
  return (
    <form
      className="stack"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <fieldset className="key-options">
        <legend>{t.keys.moveTo}</legend>
        {choices.map((one) => (
          <label key={one}>
            <input type="radio" name="store" checked={choice === one} onChange={() => setChoice(one)} />
            <span>
              {t.keys.options[one][0]}
              <span className="hint">{t.keys.options[one][1]}</span>
            </span>
          </label>
        ))}
      </fieldset>
      {choice === "encrypted" && !(known && keys.encrypted.unlocked) ? (
        <>
          <Field
            label={t.keys.passphrase}
            hint={known ? undefined : t.keys.passphraseHint}
            type="password"
            autoComplete={known ? "off" : "new-password"}
            value={passphrase}
            onValue={setPassphrase}
          />
          {known ? null : (
            <Field label={t.keys.again} type="password" autoComplete="new-password" value={again} onValue={setAgain} />
          )}
        </>
      ) : null}
      {wrong ? (
        <p className="note bad" role="alert">
          {wrong}
        </p>
      ) : null}
      <ErrorNote error={act.error} what={refusedPassphrase(act.error)} />
      <div className="row wrap">
        <button type="submit" className="primary" disabled={act.busy}>
          {button}
        </button>
        {onCancel ? (
          <button type="button" onClick={onCancel}>
            {t.common.cancel}
          </button>
        ) : null}
      </div>
    </form>
  );
}

const refusedPassphrase = (error: unknown): string | undefined =>
  error instanceof CallError && error.status === 403 ? t.keys.wrong : undefined;

/** Opens the place where keys are: with a passphrase, or by the system's own question. */
function Unlock({ keys, button, onDone }: { keys: Keys; button?: string; onDone(): void }) {
  const { api } = useEngine();
  const [passphrase, setPassphrase] = useState("");
  const [forgotten, setForgotten] = useState(false);
  const act = useAct();
  const encrypted = keys.store !== "keychain";
  const unlock = () =>
    void act.run(async () => {
      await api.unlockKeys(encrypted ? passphrase : undefined);
      setPassphrase("");
      onDone();
    });
  if (forgotten) return <NewFile onDone={onDone} onCancel={() => setForgotten(false)} />;
  return (
    <form
      className="stack tight unlock"
      onSubmit={(event) => {
        event.preventDefault();
        unlock();
      }}
    >
      <p>{encrypted ? t.keys.lockedEncrypted : t.keys.lockedKeychain}</p>
      {encrypted ? (
        <Field
          label={t.keys.passphrase}
          type="password"
          autoComplete="off"
          value={passphrase}
          onValue={setPassphrase}
          required
        />
      ) : keys.keychain.reason ? (
        <p className="quiet">
          <Foreign text={keys.keychain.reason} longest={400} />
        </p>
      ) : null}
      <ErrorNote error={act.error} what={refusedPassphrase(act.error)} />
      <div className="row wrap">
        <button type="submit" className="primary" disabled={act.busy || (encrypted && passphrase === "")}>
          {button ?? (encrypted ? t.keys.unlock : t.keys.askSystem)}
        </button>
        {encrypted ? (
          <button type="button" className="link" onClick={() => setForgotten(true)}>
            {t.keys.forgotten}
          </button>
        ) : null}
      </div>
    </form>
  );
}

/** For a passphrase that is forgotten: the keys are lost, and said to be. */
function NewFile({ onDone, onCancel }: { onDone(): void; onCancel(): void }) {
  const { api } = useEngine();
  const [passphrase, setPassphrase] = useState("");
  const [again, setAgain] = useState("");
  const [wrong, setWrong] = useState("");
  const act = useAct();
  const submit = () => {
    const fault = [...passphrase].length < SHORTEST ? t.keys.short : passphrase !== again ? t.keys.differ : "";
    setWrong(fault);
    if (fault !== "") return;
    void act.run(async () => {
      await api.chooseStore("encrypted", passphrase, true);
      onDone();
    });
  };
  return (
    <form
      className="stack tight unlock"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <p>{t.keys.forgottenText}</p>
      <Field
        label={t.keys.passphrase}
        hint={t.keys.passphraseHint}
        type="password"
        autoComplete="new-password"
        value={passphrase}
        onValue={setPassphrase}
      />
      <Field label={t.keys.again} type="password" autoComplete="new-password" value={again} onValue={setAgain} />
      {wrong ? (
        <p className="note bad" role="alert">
          {wrong}
        </p>
      ) : null}
      <ErrorNote error={act.error} />
      <div className="row wrap">
        <button type="submit" className="danger" disabled={act.busy}>
          {t.keys.discard}
        </button>
        <button type="button" onClick={onCancel}>
          {t.common.cancel}
        </button>
      </div>
    </form>
  );
}

/** Stands above everything else while saved keys cannot be used. */
export function LockedBanner({ keys, onDone }: { keys: Keys; onDone(): void }) {
  if (!isLocked(keys)) return null;
  return (
    <section className="note warn" aria-label={t.keys.lockedTitle}>
      <p className="strong">{t.keys.lockedTitle}</p>
      <Unlock keys={keys} onDone={onDone} />
    </section>
  );
}

const whereOf = (store: KeyStore | null): string => t.keys.where[store ?? "none"];

/** Where keys are kept, in plain words, and how that is changed. */
export function KeyPlace({ keys, onChanged }: { keys: Keys; onChanged(notice: string): void }) {
  const { api } = useEngine();
  const [moving, setMoving] = useState(false);
  const act = useAct();
  return (
    <section className="stack tight" aria-labelledby="key-place">
      <h2 id="key-place">{t.keys.title}</h2>
      <p>{whereOf(keys.store)}</p>
      {keys.store === "file" ? (
        <>
          <p className="quiet">
            {t.keys.filePath}:{" "}
            <span className="mono">
              <Foreign text={keys.file.path} longest={300} />
            </span>
          </p>
          {keys.file.reason ? (
            <p className="note bad">
              <Foreign text={keys.file.reason} longest={400} />
            </p>
          ) : null}
          <p className="quiet">{t.keys.fileFixed}</p>
        </>
      ) : moving && !isLocked(keys) ? (
        <div className="panel stack tight">
          <p className="quiet">{t.keys.moveHint}</p>
          <ChooseForm
            keys={keys}
            button={t.keys.moveButton}
            onCancel={() => setMoving(false)}
            onDone={(notice) => {
              setMoving(false);
              onChanged(notice || t.keys.moved);
            }}
          />
        </div>
      ) : isLocked(keys) ? null : (
        <div className="row wrap">
          <button type="button" className="small" onClick={() => setMoving(true)}>
            {t.keys.move}
          </button>
          {keys.store === "encrypted" && keys.encrypted.unlocked ? (
            <button
              type="button"
              className="small"
              disabled={act.busy}
              onClick={() =>
                void act.run(async () => {
                  await api.lockKeys();
                  onChanged("");
                })
              }
            >
              {t.keys.lock}
            </button>
          ) : null}
        </div>
      )}
      <ErrorNote error={act.error} />
    </section>
  );
}
