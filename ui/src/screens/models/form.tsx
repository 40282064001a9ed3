import { useEffect, useRef, useState } from "react";
import type { Connection, ConnectionInput, Keys, Preset, Providers, Saved } from "../../api";
import { t } from "../../i18n";
import { isAddress } from "../../parts/address";
import { CopyButton, ErrorNote } from "../../parts/error";
import { Field, Lines, Pick } from "../../parts/field";
import { Foreign, oneLine } from "../../parts/text";
import { useAct, useEngine, useLoaded } from "../../state";
import { keyHint, useKeySaving } from "./keys";

/** The wire format that is only for text: it alone has prompt formats. */
const TEXT = "openai-text";
const LONGEST_NAME = 60;

export interface Beginning {
  preset: Preset | null;
  baseUrl: string;
  name: string;
}

interface Props {
  /** The connection that is changed, or what a new one begins with. */
  connection?: Connection;
  beginning?: Beginning;
  apis: Providers["apis"];
  keys: Keys | null;
  /** Puts the person into the field for the key. */
  toKey?: boolean;
  onSaved(saved: Saved): void;
  onCancel?: () => void;
  cancel?: string;
}

/** Address, format, models and key of a connection. The key leaves this form once, to the engine, and is forgotten here. */
export function ConnectionForm({ connection, beginning, apis, keys, toKey, onSaved, onCancel, cancel }: Props) {
  const { api } = useEngine();
  const preset = beginning?.preset ?? null;
  const [name, setName] = useState(connection?.name ?? beginning?.name ?? "");
  const [baseUrl, setBaseUrl] = useState(connection?.baseUrl ?? beginning?.baseUrl ?? "");
  const [format, setFormat] = useState(connection?.api || preset?.api || apis[0]?.id || "");
  const [typed, setTyped] = useState(connection ? connection.models !== null : false);
  const [names, setNames] = useState((connection?.models ?? []).join("\n"));
  const [prompt, setPrompt] = useState<string | null>(connection ? connection.promptFormat : "");
  const [key, setKey] = useState("");
  const [wrong, setWrong] = useState("");
  const keyField = useRef<HTMLInputElement>(null);
  const more = useRef<HTMLDetailsElement>(null);
  const act = useAct();
  const { saving, dialog } = useKeySaving();
  useEffect(() => {
    if (toKey) keyField.current?.focus();
  }, [toKey]);

  const submit = () => {
    const address = baseUrl.trim();
    const models = [...new Set(names.split(/\r\n|\r|\n/).map((one) => one.trim()))].filter(Boolean);
    const fault = !isAddress(address)
      ? t.settings.addressMissing
      : typed && models.length === 0
        ? t.connect.typedMissing
        : "";
    setWrong(fault);
    if (fault !== "") {
      if (more.current) more.current.open = true;
      return;
    }
    const input: ConnectionInput = {
      ...(preset ? { preset: preset.id } : {}),
      ...(name.trim() ? { name: name.trim() } : {}),
      ...(format && format !== connection?.api ? { api: format } : {}),
      baseUrl: address,
      ...(key ? { key } : {}),
      ...(typed ? { models } : connection === undefined || connection.models !== null ? { models: "auto" } : {}),
      ...(format === TEXT && prompt !== null && prompt !== (connection?.promptFormat ?? "")
        ? { promptFormat: prompt === "" ? null : prompt }
        : {}),
    };
    void act.run(async () => {
      const saved = await saving(() =>
        connection ? api.changeConnection(connection.id, input) : api.addConnection(input),
      );
      setKey("");
      onSaved(saved);
    });
  };
  const forgets = connection?.hasKey === true && baseUrl.trim() !== connection.baseUrl && key === "";
  const optional = preset === null || preset.local || !preset.needsKey;
  const details = (
    <>
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
        aria-invalid={wrong === t.settings.addressMissing}
      />
      {apis.length > 0 ? (
        <Pick label={t.connect.api} hint={t.connect.apiHint} value={format} onValue={setFormat}>
          {apis.some((one) => one.id === format) ? null : <option value={format}>{oneLine(format, 60)}</option>}
          {apis.map((one) => (
            <option key={one.id} value={one.id}>
              {oneLine(one.name, 80)}
            </option>
          ))}
        </Pick>
      ) : null}
      {format === TEXT ? <PromptFormat value={prompt} onValue={setPrompt} /> : null}
      <fieldset className="choices">
        <legend>{t.connect.lists}</legend>
        <label>
          <input type="radio" name="lists" checked={!typed} onChange={() => setTyped(false)} />
          {t.connect.listAuto}
        </label>
        <label>
          <input type="radio" name="lists" checked={typed} onChange={() => setTyped(true)} />
          {t.connect.listTyped}
        </label>
      </fieldset>
      {typed ? <Lines label={t.connect.typed} hint={t.connect.typedHint} value={names} onValue={setNames} /> : null}
      <Field
        label={t.settings.name}
        hint={t.settings.nameHint}
        value={name}
        onValue={setName}
        maxLength={LONGEST_NAME}
        autoComplete="off"
      />
    </>
  );
  const hint = connection?.hasKey ? t.settings.keyKeep : optional ? t.settings.keyOptional : t.connect.keyNew;
  const keyPart = (
    <>
      {preset?.keyPage ? (
        <p className="key-page">
          {t.connect.keyPage}{" "}
          <span className="mono">
            <Foreign text={preset.keyPage} longest={200} />
          </span>{" "}
          <CopyButton text={preset.keyPage} label={t.connect.copyPage} />
        </p>
      ) : null}
      <Field
        ref={keyField}
        label={t.settings.key}
        hint={`${hint} ${keyHint(keys)}`}
        value={key}
        onValue={setKey}
        type="text"
        className="secret"
        autoCapitalize="none"
        autoComplete="off"
        spellCheck={false}
      />
      {forgets ? (
        <p className="note warn" role="status">
          {t.connect.keyForgotten}
        </p>
      ) : null}
    </>
  );
  return (
    <>
      <form
        className="stack"
        noValidate // what is wrong is said in our own words, below
        onSubmit={(event) => {
          event.preventDefault();
          submit();
        }}
      >
        {preset ? (
          <>
            {keyPart}
            <details ref={more} open={preset.local || undefined}>
              <summary>{t.connect.more}</summary>
              <div className="stack after-summary">{details}</div>
            </details>
          </>
        ) : (
          <>
            {details}
            {keyPart}
          </>
        )}
        {wrong ? (
          <p className="note bad" role="alert">
            {wrong}
          </p>
        ) : null}
        <ErrorNote error={act.error} />
        <div className="row wrap">
          <button type="submit" className="primary" disabled={act.busy}>
            {act.busy ? t.settings.connecting : connection ? t.common.save : t.settings.connect}
          </button>
          {onCancel ? (
            <button type="button" onClick={onCancel}>
              {cancel ?? t.common.cancel}
            </button>
          ) : null}
        </div>
      </form>
      {dialog}
    </>
  );
}

function PromptFormat({ value, onValue }: { value: string | null; onValue(value: string | null): void }) {
  const formats = useLoaded((a) => a.promptFormats());
  const listed = formats.value ?? [];
  const OWN = "\u0000own"; // no format has such an id
  return (
    <>
      <Pick
        label={t.connect.promptFormat}
        hint={t.connect.promptHint}
        value={value ?? OWN}
        onValue={(id) => onValue(id === OWN ? null : id)}
      >
        {value === null ? <option value={OWN}>{t.connect.promptOwn}</option> : null}
        <option value="">{t.connect.promptAuto}</option>
        {value && !listed.some((one) => one.id === value) ? <option value={value}>{oneLine(value, 80)}</option> : null}
        {listed.map((one) => (
          <option key={one.id} value={one.id}>
            {oneLine(one.name, 80)}
          </option>
        ))}
      </Pick>
      <ErrorNote error={formats.error} retry={formats.reload} />
    </>
  );
}
