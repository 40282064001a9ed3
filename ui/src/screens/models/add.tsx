import { useState } from "react";
import type { Keys, LocalServer, Preset, Providers, Saved } from "../../api";
import { t } from "../../i18n";
import { ErrorNote } from "../../parts/error";
import { Field } from "../../parts/field";
import { Foreign, oneLine } from "../../parts/text";
import { useAct, useEngine, useLoaded } from "../../state";
import { type Beginning, ConnectionForm } from "./form";
import "./models.css";

interface Props {
  keys: Keys | null;
  onSaved(saved: Saved): void;
  onCancel?: () => void;
}

/** A new connection: what runs on this machine first, then the services people know, then any address. */
export function AddConnection({ keys, onSaved, onCancel }: Props) {
  const { api } = useEngine();
  const providers = useLoaded<Providers>((a) => a.providers());
  const servers = useLoaded<LocalServer[]>((a) => a.localServers());
  const [query, setQuery] = useState("");
  const [begun, setBegun] = useState<Beginning | null>(null);
  const act = useAct();

  const presets = providers.value?.presets ?? [];
  const apis = providers.value?.apis ?? [];
  const hosted = presets.filter((one) => !one.local);
  const local = presets.filter((one) => one.local);
  const begin = (preset: Preset) => setBegun({ preset, baseUrl: preset.baseUrl, name: preset.name });
  const take = (server: LocalServer) => {
    const preset = presets.find((one) => one.id === server.preset) ?? null;
    if (server.wantsKey) {
      setBegun({ preset: preset && { ...preset, needsKey: true }, baseUrl: server.baseUrl, name: server.name });
      return;
    }
    void act.run(async () => {
      const input = { name: oneLine(server.name, 59), baseUrl: server.baseUrl };
      onSaved(await api.addConnection(preset ? { ...input, preset: preset.id } : input));
    });
  };
  const words = query.toLocaleLowerCase().split(/\s+/).filter(Boolean);
  const fits = hosted.filter((one) =>
    words.every((word) => `${one.name} ${one.id}`.toLocaleLowerCase().includes(word)),
  );

  if (begun) {
    return (
      <div className="stack tight">
        <h3>{begun.preset ? <Foreign text={begun.preset.name} longest={80} /> : t.connect.other}</h3>
        <ConnectionForm
          beginning={begun}
          apis={apis}
          keys={keys}
          toKey={begun.preset?.needsKey === true}
          onSaved={onSaved}
          onCancel={() => setBegun(null)}
          cancel={t.connect.backToChoice}
        />
      </div>
    );
  }
  const any = <ConnectionForm apis={apis} keys={keys} onSaved={onSaved} {...(onCancel ? { onCancel } : {})} />;
  return (
    <div className="stack loose">
      <section className="stack tight" aria-live="polite" aria-label={t.connect.here}>
        <h3>{servers.value?.length ? t.connect.found : t.connect.here}</h3>
        {servers.value?.map((server) => (
          <div key={server.baseUrl} className="line">
            <div className="grow">
              <p className="strong">
                <Foreign text={server.name} longest={80} />
              </p>
              <p className="quiet mono">
                <Foreign text={server.baseUrl} longest={120} /> ·{" "}
                {server.wantsKey ? t.connect.wantsKey : t.connect.serverModels(server.models.length)}
              </p>
            </div>
            {server.added ? (
              <span className="quiet">{t.connect.added}</span>
            ) : (
              <button type="button" className="primary" disabled={act.busy} onClick={() => take(server)}>
                {t.connect.use(oneLine(server.name, 40))}
              </button>
            )}
          </div>
        ))}
        {servers.loading ? <p className="quiet">{t.connect.looking}</p> : null}
        {servers.value && !servers.loading ? (
          <div className="row wrap">
            {servers.value.length === 0 ? <span className="quiet">{t.connect.noneFound}</span> : null}
            <button type="button" className="link small" onClick={servers.reload}>
              {t.connect.lookAgain}
            </button>
          </div>
        ) : null}
        <ErrorNote error={servers.error} retry={servers.reload} />
        <ErrorNote error={act.error} />
      </section>
      <ErrorNote error={providers.error} retry={providers.reload} />
      {hosted.length > 0 ? (
        <section className="stack tight" aria-label={t.connect.hosted}>
          <h3>{t.connect.hosted}</h3>
          <p className="quiet">{t.connect.hostedHint}</p>
          <div className="short-field">
            <Field label={t.connect.searchHosted} type="search" value={query} onValue={setQuery} autoComplete="off" />
          </div>
          <Presets presets={fits} onChoose={begin} />
          <p className="quiet" role="status">
            {fits.length === 0 ? t.connect.noHosted(oneLine(query, 40)) : null}
          </p>
        </section>
      ) : null}
      {local.length > 0 ? (
        <section className="stack tight" aria-label={t.connect.localPresets}>
          <h3>{t.connect.localPresets}</h3>
          <Presets presets={local} onChoose={begin} />
        </section>
      ) : null}
      {providers.value === null && providers.error === null ? null : presets.length === 0 ? (
        any
      ) : (
        <section className="stack tight" aria-label={t.connect.other}>
          <h3>{t.connect.other}</h3>
          <p className="quiet">{t.connect.otherHint}</p>
          <div className="row wrap">
            <button type="button" onClick={() => setBegun({ preset: null, baseUrl: "", name: "" })}>
              {t.connect.otherButton}
            </button>
            {onCancel ? (
              <button type="button" onClick={onCancel}>
                {t.common.cancel}
              </button>
            ) : null}
          </div>
        </section>
      )}
    </div>
  );
}

function Presets({ presets, onChoose }: { presets: Preset[]; onChoose(preset: Preset): void }) {
  return (
    <ul className="presets">
      {presets.map((preset) => (
        <li key={preset.id}>
          <button
            type="button"
            className="small"
            aria-label={t.connect.choose(oneLine(preset.name, 60))}
            onClick={() => onChoose(preset)}
          >
            <bdi>{oneLine(preset.name, 60)}</bdi>
          </button>
        </li>
      ))}
    </ul>
  );
}
