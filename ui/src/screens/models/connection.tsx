import { useState } from "react";
import type { Connection, Hello, Keys, Model, Models, Providers } from "../../api";
import { formatTook, t } from "../../i18n";
import { ErrorNote } from "../../parts/error";
import { Pick } from "../../parts/field";
import { ModelOptions } from "../../parts/models";
import { Foreign, ForeignBlock, oneLine } from "../../parts/text";
import { useAct, useEngine } from "../../state";
import { Failure } from "./failure";
import { ConnectionForm } from "./form";
import { isLocked } from "./keys";
import { ModelRows } from "./table";

interface Props {
  connection: Connection;
  keys: Keys | null;
  providers: Providers | null;
  models: Models | null;
  onChanged(notice: string): void;
}

const keyWords = (connection: Connection): string =>
  t.keys.kept[connection.hasKey ? (connection.keyKept ?? "unknown") : "none"];

/** A connection as it stands: what it is, whether it works, what its models are. */
export function OneConnection({ connection, keys, providers, models, onChanged }: Props) {
  const { api } = useEngine();
  const [mode, setMode] = useState<"shown" | "edit" | "key" | "remove">("shown");
  const [hello, setHello] = useState<Hello | null>(null);
  const [model, setModel] = useState("");
  const act = useAct();
  const greeting = useAct();
  const name = oneLine(connection.name, 60) || t.common.unnamed;
  const own: Model[] = models?.models.filter((one) => one.ref.startsWith(`${connection.id}/`)) ?? [];
  const bare = (ref: string) => ref.slice(connection.id.length + 1);
  const sayHello = () =>
    void greeting.run(async () => {
      setHello(null);
      setHello(await api.sayHello(connection.id, model === "" ? undefined : bare(model)));
    });
  const preset = providers?.presets.find((one) => one.id === connection.preset);
  const format = providers?.apis.find((one) => one.id === connection.api);
  if (mode === "edit" || mode === "key") {
    return (
      <div className="panel">
        <h3>{t.settings.editOf(name)}</h3>
        <ConnectionForm
          connection={connection}
          apis={providers?.apis ?? []}
          keys={keys}
          toKey={mode === "key"}
          onCancel={() => setMode("shown")}
          onSaved={(saved) => {
            setMode("shown");
            setHello(null);
            onChanged(saved.notice);
          }}
        />
      </div>
    );
  }
  const kind = [...new Set([preset?.name ?? "", format?.name ?? connection.api])]
    .filter(Boolean)
    .map((one) => oneLine(one, 80));
  return (
    <div className="panel stack tight">
      <div className="row wrap connection-head">
        <div className="grow">
          <h3>
            <bdi>{name}</bdi>
          </h3>
          {kind.length > 0 ? <p className="quiet">{kind.join(" · ")}</p> : null}
          <p className="quiet">
            {t.connect.finalUrl}{" "}
            <span className="mono">
              <Foreign text={connection.finalUrl || connection.baseUrl} longest={200} />
            </span>
          </p>
          <p className="quiet">
            {connection.local ? `${t.settings.local} · ` : null}
            {keyWords(connection)}
          </p>
        </div>
        <div className="row wrap">
          <button
            type="button"
            className="small"
            aria-label={t.connect.sayHelloTo(name)}
            disabled={greeting.busy}
            onClick={sayHello}
          >
            {t.connect.sayHello}
          </button>
          <button type="button" className="small" aria-label={t.settings.editOf(name)} onClick={() => setMode("edit")}>
            {t.settings.edit}
          </button>
          {connection.hasKey ? (
            <button
              type="button"
              className="small"
              disabled={act.busy}
              onClick={() =>
                void act.run(async () => {
                  await api.forgetKey(connection.id);
                  onChanged(t.connect.keyGone);
                })
              }
            >
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
      {connection.keyTrouble ? (
        <div className="note warn">
          <p>
            <Foreign text={connection.keyTrouble} longest={400} />
          </p>
          {keys && isLocked(keys) ? null : (
            <button type="button" className="small" onClick={() => setMode("key")}>
              {t.failure.enterKey}
            </button>
          )}
        </div>
      ) : null}
      {mode === "remove" ? (
        <div className="note row wrap">
          <span className="grow">{t.settings.removeAsk(name)}</span>
          <button
            type="button"
            className="small danger"
            disabled={act.busy}
            onClick={() =>
              void act.run(async () => {
                await api.removeConnection(connection.id);
                onChanged(t.connect.removed(name));
              })
            }
          >
            {t.settings.remove}
          </button>
          <button type="button" className="small" onClick={() => setMode("shown")}>
            {t.common.cancel}
          </button>
        </div>
      ) : null}
      <div aria-live="polite" className="live">
        {greeting.busy ? <p className="quiet">{t.connect.greeting}</p> : null}
        {hello?.ok ? <Answered hello={hello} /> : null}
      </div>
      {hello && !hello.ok ? (
        <Failure error={hello.error} info={hello.info} url={hello.url} onKey={() => setMode("key")} />
      ) : null}
      <ErrorNote error={greeting.error} />
      <ErrorNote error={act.error} />
      {own.length > 0 ? (
        <details>
          <summary aria-label={`${t.connect.modelsOf(name)} (${own.length})`}>{t.connect.models(own.length)}</summary>
          <div className="stack after-summary">
            <div className="short-field">
              <Pick label={t.connect.helloModel} value={model || (own[0]?.ref ?? "")} onValue={setModel}>
                <ModelOptions models={own} chosen={model || (own[0]?.ref ?? "")} />
              </Pick>
            </div>
            <ModelRows models={own} onChanged={() => onChanged("")} />
          </div>
        </details>
      ) : null}
    </div>
  );
}

function Answered({ hello }: { hello: Hello }) {
  const total = formatTook(hello.totalMs ?? 0);
  return (
    <div className="note good">
      <p className="strong">
        {hello.firstMs === null ? t.connect.answeredAll(total) : t.connect.answered(formatTook(hello.firstMs), total)}
      </p>
      <p>{t.connect.by(oneLine(hello.model, 120))}</p>
      {hello.text.trim() === "" ? (
        <p className="quiet">{t.connect.noWords}</p>
      ) : (
        <blockquote>
          <ForeignBlock text={hello.text} />
        </blockquote>
      )}
      {hello.url ? (
        <p className="quiet">
          {t.connect.askedAt}{" "}
          <span className="mono">
            <Foreign text={hello.url} longest={300} />
          </span>
        </p>
      ) : null}
    </div>
  );
}
