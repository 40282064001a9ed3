import { useCallback, useEffect, useRef, useState } from "react";
import type { Settings } from "../../api";
import type { SpeechEndpoint, Voice } from "../../api-media";
import { t } from "../../i18n";
import { isAddress } from "../../parts/address";
import { readAmount } from "../../parts/amount";
import { ErrorNote } from "../../parts/error";
import { Field, Pick } from "../../parts/field";
import { Foreign, oneLine } from "../../parts/text";
import { useAct, useEngine, useLoaded } from "../../state";
import { useKeySaving } from "../models/keys";
import { soundOf } from "./blob";

interface Props {
  settings: Settings;
  onSettings(settings: Settings): void;
}

const SLOWEST = 0.25;
const FASTEST = 4;
/** What the contract lets an endpoint speak at once. */
const LONGEST = 3000;

/** Two servers may have a voice of the same name. */
const keyOf = (voice: Voice): string => `${voice.from}/${voice.id}`;

/** Plays one sound at a time; another one, or leaving the page, ends it. */
function usePlayer() {
  const now = useRef<{ audio: HTMLAudioElement; address: string } | null>(null);
  const [playing, setPlaying] = useState(false);
  const stop = useCallback(() => {
    if (now.current) {
      now.current.audio.pause();
      URL.revokeObjectURL(now.current.address);
      now.current = null;
    }
    setPlaying(false);
  }, []);
  useEffect(() => stop, [stop]);
  const play = useCallback(
    async (sound: Blob) => {
      stop();
      const address = URL.createObjectURL(sound);
      const audio = new Audio(address);
      now.current = { audio, address };
      audio.addEventListener("ended", stop, { once: true });
      setPlaying(true);
      try {
        await audio.play();
      } catch {
        // Stopped by hand while it began, or not a sound that this webview can play.
        if (now.current?.audio === audio) {
          stop();
          throw new Error(t.speech.cannotPlay);
        }
      }
    },
    [stop],
  );
  return { play, stop, playing };
}

/** The voice of apps, how fast it speaks, and the servers that speak. */
export function SpeechSection({ settings, onSettings }: Props) {
  const { api } = useEngine();
  const voices = useLoaded((a) => a.voices(), ["connections_changed"]);
  const [speed, setSpeed] = useState(settings.speechSpeed === null ? "1" : String(settings.speechSpeed));
  const [text, setText] = useState<string>(t.speech.example);
  const [said, setSaid] = useState("");
  const saving = useAct();
  const making = useAct();
  const player = usePlayer();
  const change = (part: Partial<Settings>) =>
    void saving.run(async () => {
      onSettings(await api.change(part));
    });
  const amount = readAmount(speed);
  const fits = amount === null || (amount >= SLOWEST && amount <= FASTEST);
  const list: Voice[] = voices.value?.voices ?? [];
  const chosen = settings.speechVoice ?? "";
  const from = settings.speechFrom ?? "";
  const voice = list.find((one) => one.id === chosen && (from === "" || one.from === from));
  const keepSpeed = () => {
    if (fits && amount !== settings.speechSpeed && !(amount === 1 && settings.speechSpeed === null)) {
      change({ speechSpeed: amount });
    }
  };
  const play = () =>
    void making.run(async () => {
      setSaid("");
      const spoken = await api.speak(text.trim(), {
        ...(chosen ? { voice: chosen } : {}),
        ...(amount !== null ? { speed: amount } : {}),
        ...(voice?.from ? { [voice.isServer ? "endpointId" : "connection"]: voice.from } : {}),
      });
      const sound = soundOf(spoken.dataUrl);
      if (!sound) throw new Error(t.speech.cannotPlay);
      setSaid(t.speech.playing(oneLine(spoken.voice || chosen, 80)));
      await player.play(sound);
    });
  return (
    <section className="stack media" aria-labelledby="speech">
      <h2 id="speech">{t.speech.title}</h2>
      <ErrorNote error={voices.error} retry={voices.reload} />
      {voices.value && voices.value.errors.length > 0 ? (
        <div className="note warn">
          <p className="strong">{t.speech.unlisted}</p>
          <ul>
            {voices.value.errors.map((one) => (
              <li key={one.name}>
                <Foreign text={one.name} longest={80} />: <Foreign text={one.error} longest={1000} />
              </li>
            ))}
          </ul>
        </div>
      ) : null}
      {voices.value && list.length === 0 ? <p className="quiet">{t.speech.noVoices}</p> : null}
      {list.length > 0 ? (
        <>
          <div className="limits">
            <Pick
              label={t.speech.voice}
              value={voice ? keyOf(voice) : chosen}
              onValue={(key) => {
                const next = list.find((one) => keyOf(one) === key);
                change({ speechVoice: next?.id ?? null, speechFrom: next?.from || null });
              }}
            >
              <option value="">{t.speech.auto}</option>
              {chosen === "" || voice ? null : (
                <option value={chosen}>{t.settings.notListed(oneLine(chosen, 80))}</option>
              )}
              {list.map((one) => (
                <option key={keyOf(one)} value={keyOf(one)}>
                  {oneLine(one.fromName ? `${one.name} · ${one.fromName}` : one.name, 100)}
                </option>
              ))}
            </Pick>
            <Field
              label={t.speech.speed}
              hint={t.speech.speedHint}
              inputMode="decimal"
              value={speed}
              onValue={setSpeed}
              onBlur={keepSpeed}
              aria-invalid={!fits}
            />
          </div>
          {fits ? null : (
            <p className="note bad" role="alert">
              {t.speech.speedBad}
            </p>
          )}
          <ErrorNote error={saving.error} />
          <form
            className="stack tight"
            onSubmit={(event) => {
              event.preventDefault();
              play();
            }}
          >
            <Field
              label={t.speech.text}
              hint={t.images.costs}
              value={text}
              onValue={setText}
              maxLength={LONGEST}
              autoComplete="off"
            />
            <div className="row wrap">
              <button type="submit" disabled={making.busy || !fits || text.trim() === ""}>
                {t.speech.play}
              </button>
              {player.playing ? (
                <button type="button" onClick={player.stop}>
                  {t.speech.stop}
                </button>
              ) : null}
              <span role="status" className="quiet">
                {making.busy && !player.playing ? t.speech.making : player.playing ? said : null}
              </span>
            </div>
          </form>
          <ErrorNote error={making.error} />
        </>
      ) : null}
      <Endpoints onChanged={voices.reload} />
    </section>
  );
}

function Endpoints({ onChanged }: { onChanged(): void }) {
  const endpoints = useLoaded<SpeechEndpoint[]>((a) => a.speechEndpoints());
  const [adding, setAdding] = useState(false);
  const changed = () => {
    endpoints.reload();
    onChanged();
  };
  return (
    <div className="stack tight">
      <h3>{t.speech.endpoints}</h3>
      <p className="quiet">{t.speech.endpointsHint}</p>
      <ErrorNote error={endpoints.error} retry={endpoints.reload} />
      {endpoints.value?.length === 0 && !adding ? <p className="quiet">{t.speech.noEndpoints}</p> : null}
      {endpoints.value?.map((one) => (
        <OneEndpoint key={one.id} endpoint={one} onChanged={changed} />
      ))}
      {adding ? (
        <div className="panel">
          <EndpointForm
            endpoint={null}
            onClose={() => setAdding(false)}
            onSaved={() => {
              setAdding(false);
              changed();
            }}
          />
        </div>
      ) : (
        <div>
          <button type="button" className="small" onClick={() => setAdding(true)}>
            {t.speech.add}
          </button>
        </div>
      )}
    </div>
  );
}

function OneEndpoint({ endpoint, onChanged }: { endpoint: SpeechEndpoint; onChanged(): void }) {
  const { api } = useEngine();
  const [mode, setMode] = useState<"shown" | "edit" | "remove">("shown");
  const act = useAct();
  const name = oneLine(endpoint.name, 60) || t.common.unnamed;
  if (mode === "edit") {
    return (
      <div className="panel">
        <EndpointForm
          endpoint={endpoint}
          onClose={() => setMode("shown")}
          onSaved={() => {
            setMode("shown");
            onChanged();
          }}
        />
      </div>
    );
  }
  return (
    <div className="line">
      <div className="grow">
        <p className="strong">
          <bdi>{name}</bdi>
        </p>
        <p className="quiet mono">
          <Foreign text={[endpoint.baseUrl, endpoint.model, endpoint.voice].filter(Boolean).join(" · ")} />
        </p>
        <p className="quiet">{endpoint.hasKey ? t.keys.kept.unknown : t.keys.kept.none}</p>
      </div>
      <button type="button" className="small" aria-label={t.speech.editOf(name)} onClick={() => setMode("edit")}>
        {t.speech.edit}
      </button>
      {mode === "remove" ? (
        <>
          <button
            type="button"
            className="small danger"
            disabled={act.busy}
            onClick={() =>
              void act.run(async () => {
                await api.removeSpeechEndpoint(endpoint.id);
                onChanged();
              })
            }
          >
            {t.speech.removeOf(name)}
          </button>
          <button type="button" className="small" onClick={() => setMode("shown")}>
            {t.common.cancel}
          </button>
        </>
      ) : (
        <button type="button" className="small" aria-label={t.speech.removeOf(name)} onClick={() => setMode("remove")}>
          {t.speech.remove}
        </button>
      )}
      <ErrorNote error={act.error} />
    </div>
  );
}

interface FormProps {
  endpoint: SpeechEndpoint | null;
  onSaved(): void;
  onClose(): void;
}

function EndpointForm({ endpoint, onSaved, onClose }: FormProps) {
  const { api } = useEngine();
  const [name, setName] = useState(endpoint?.name ?? "");
  const [baseUrl, setBaseUrl] = useState(endpoint?.baseUrl ?? "");
  const [model, setModel] = useState(endpoint?.model ?? "");
  const [voice, setVoice] = useState(endpoint?.voice ?? "");
  const [key, setKey] = useState("");
  const [missing, setMissing] = useState(false);
  const act = useAct();
  const { saving, dialog } = useKeySaving();
  const save = () => {
    const address = baseUrl.trim();
    const wrong = !isAddress(address);
    setMissing(wrong);
    if (wrong) return;
    const input = {
      name: name.trim() || new URL(address).host,
      baseUrl: address,
      model: model.trim(),
      voice: voice.trim(),
      ...(key ? { key } : {}),
    };
    void act.run(async () => {
      await saving(() => api.saveSpeechEndpoint(endpoint?.id ?? null, input));
      setKey("");
      onSaved();
    });
  };
  const plain = { autoComplete: "off", spellCheck: false };
  return (
    <>
      <form
        className="stack"
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          save();
        }}
      >
        <Field
          label={t.speech.address}
          hint={t.speech.addressHint}
          type="url"
          inputMode="url"
          value={baseUrl}
          onValue={setBaseUrl}
          aria-invalid={missing}
          {...plain}
        />
        <Field label={t.speech.name} value={name} onValue={setName} maxLength={60} {...plain} />
        <div className="limits">
          <Field label={t.speech.model} hint={t.speech.modelHint} value={model} onValue={setModel} {...plain} />
          <Field label={t.speech.voiceName} hint={t.speech.voiceHint} value={voice} onValue={setVoice} {...plain} />
        </div>
        <Field
          label={t.speech.key}
          hint={endpoint?.hasKey ? t.speech.keyKeep : t.speech.keyHint}
          className="secret"
          autoCapitalize="none"
          value={key}
          onValue={setKey}
          {...plain}
        />
        {missing ? (
          <p className="note bad" role="alert">
            {t.settings.addressMissing}
          </p>
        ) : null}
        <ErrorNote error={act.error} />
        <div className="row wrap">
          <button type="submit" className="primary" disabled={act.busy}>
            {t.speech.save}
          </button>
          <button type="button" onClick={onClose}>
            {t.common.cancel}
          </button>
        </div>
      </form>
      {dialog}
    </>
  );
}
