import { useState } from "react";
import type { Connection, Preset, Saved } from "../api";
import { t } from "../i18n";
import { useAct, useEngine, useLoaded } from "../state";
import { ErrorNote } from "./error";
import { Field, Pick } from "./field";
import { oneLine } from "./text";

interface Props {
  /** The connection that is changed, or none for a new one. */
  connection?: Connection;
  keychain: { usable: boolean; reason: string } | null;
  onSaved(saved: Saved): void;
  onCancel?: () => void;
}

function isAddress(text: string): boolean {
  try {
    const { protocol, hostname } = new URL(text);
    return (protocol === "http:" || protocol === "https:") && hostname !== "";
  } catch {
    return false;
  }
}

/** Address and key of a model server. The key leaves this form once, to the engine, and is forgotten here. */
export function ConnectionForm({ connection, keychain, onSaved, onCancel }: Props) {
  const { api } = useEngine();
  const presets = useLoaded<Preset[]>((a) => (connection ? Promise.resolve([]) : a.presets()));
  const [preset, setPreset] = useState("");
  const [name, setName] = useState(connection?.name ?? "");
  const [baseUrl, setBaseUrl] = useState(connection?.baseUrl ?? "");
  const [key, setKey] = useState("");
  const [missing, setMissing] = useState(false);
  const act = useAct();

  const choose = (id: string) => {
    setPreset(id);
    const chosen = presets.value?.find((p) => p.id === id);
    if (chosen) {
      setBaseUrl(chosen.baseUrl);
      setName(chosen.name);
    }
  };
  const submit = () => {
    const address = baseUrl.trim();
    if (!isAddress(address)) return setMissing(true);
    setMissing(false);
    const input = { baseUrl: address, ...(name.trim() ? { name: name.trim() } : {}), ...(key ? { key } : {}) };
    void act.run(async () => {
      const saved = await (connection ? api.changeConnection(connection.id, input) : api.addConnection(input));
      setKey("");
      onSaved(saved);
    });
  };
  const where = keychain?.usable === false ? t.settings.keyRun : t.settings.keyKeychain;
  return (
    <form
      className="stack"
      noValidate // what is wrong is said in our own words, below
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      {presets.value && presets.value.length > 0 ? (
        <Pick label={t.settings.preset} value={preset} onValue={choose}>
          <option value="">{t.settings.presetOther}</option>
          {presets.value.map((p) => (
            <option key={p.id} value={p.id}>
              {oneLine(p.name, 80)}
            </option>
          ))}
        </Pick>
      ) : null}
      <Field
        label={t.settings.address}
        hint={t.settings.addressHint}
        value={baseUrl}
        onValue={setBaseUrl}
        type="url"
        inputMode="url"
        autoComplete="off"
        spellCheck={false}
        required
        aria-invalid={missing}
      />
      <Field
        label={t.settings.key}
        hint={
          <>
            {connection?.hasKey ? t.settings.keyKeep : t.settings.keyOptional} {where}
          </>
        }
        value={key}
        onValue={setKey}
        type="text"
        className="secret"
        autoCapitalize="none"
        autoComplete="off"
        spellCheck={false}
      />
      <Field
        label={t.settings.name}
        hint={t.settings.nameHint}
        value={name}
        onValue={setName}
        maxLength={80}
        autoComplete="off"
      />
      {missing ? (
        <p className="note bad" role="alert">
          {t.settings.addressMissing}
        </p>
      ) : null}
      <ErrorNote error={act.error} />
      <div className="row wrap">
        <button type="submit" className="primary" disabled={act.busy}>
          {act.busy ? t.settings.connecting : connection ? t.common.save : t.settings.connect}
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
