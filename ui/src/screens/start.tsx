import { useEffect, useRef, useState } from "react";
import type { Connection, Connections, Launch, Me, Models, Providers, Saved } from "../api";
import { t } from "../i18n";
import { ErrorNote } from "../parts/error";
import { Field } from "../parts/field";
import { Review } from "../parts/review";
import { Foreign, oneLine } from "../parts/text";
import { Tile } from "../parts/tile";
import { useAct, useEngine, useLoaded } from "../state";
import { AddConnection } from "./models/add";
import { ConnectionForm } from "./models/form";
import { LockedBanner } from "./models/keys";
import { ModelPick } from "./models/picker";

type Step = "name" | "model" | "app";
const STEPS: Step[] = ["name", "model", "app"];

interface Props {
  me: Me;
  /** Ends the first start; with the app that was just added, when it should open. */
  onDone(open: string | null): Promise<void>;
}

const KEPT = "chrysalis.start";

/** Where this window was before it was loaded again. */
function keptStep(): Step | null {
  try {
    const kept = sessionStorage.getItem(KEPT);
    return STEPS.find((step) => step === kept) ?? null;
  } catch {
    return null;
  }
}

function keepStep(step: Step | null): void {
  try {
    if (step === null) sessionStorage.removeItem(KEPT);
    else sessionStorage.setItem(KEPT, step);
  } catch {
    // A reload begins at the first step, then.
  }
}

/** The first start: three steps, each of which can be skipped. */
export function Start({ me, onDone }: Props) {
  // Who has just chosen a name with a password is not asked again.
  const [step, setStep] = useState<Step>(() => keptStep() ?? (me.hasPassword ? "model" : "name"));
  const heading = useRef<HTMLHeadingElement>(null);
  const act = useAct();
  // A new step is read out from its heading; `step` is what moves the focus.
  useEffect(() => {
    if (step) heading.current?.focus();
    keepStep(step);
  }, [step]);
  const at = STEPS.indexOf(step);
  const finish = (open: string | null) =>
    void act.run(async () => {
      await onDone(open);
      keepStep(null);
    });
  const title = { name: t.start.nameTitle, model: t.start.modelTitle, app: t.start.appTitle }[step];
  return (
    <main className="narrow start" id="content">
      <p className="welcome">{t.start.title}</p>
      <ol className="steps" aria-label={t.start.stepOf(at + 1, STEPS.length)}>
        {STEPS.map((s, index) => (
          <li key={s} className={index < at ? "done" : undefined} aria-current={s === step ? "step" : undefined}>
            {t.start.steps[s]}
          </li>
        ))}
      </ol>
      <h1 ref={heading} tabIndex={-1}>
        {title}
      </h1>
      {step === "name" ? <NameStep me={me} onNext={() => setStep("model")} /> : null}
      {step === "model" ? <ModelStep onNext={() => setStep("app")} /> : null}
      {step === "app" ? <AppStep onDone={finish} /> : null}
      <ErrorNote error={act.error} />
      <p className="start-foot">
        <button type="button" className="link" disabled={act.busy} onClick={() => finish(null)}>
          {step === "app" ? t.start.finish : t.start.skipAll}
        </button>
      </p>
    </main>
  );
}

function NameStep({ me, onNext }: { me: Me; onNext(): void }) {
  const { api } = useEngine();
  const [name, setName] = useState(me.username);
  const act = useAct();
  const submit = () =>
    act.run(async () => {
      const chosen = name.trim();
      if (chosen !== "" && chosen !== me.username) await api.rename(chosen);
      onNext();
    });
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      <Field
        label={t.settings.yourName}
        hint={t.start.nameHint}
        value={name}
        onValue={setName}
        maxLength={32}
        autoComplete="name"
      />
      <ErrorNote error={act.error} />
      <div className="row wrap">
        <button type="submit" className="primary" disabled={act.busy}>
          {t.common.next}
        </button>
        <button type="button" onClick={onNext}>
          {t.common.skip}
        </button>
      </div>
    </form>
  );
}

interface Connected {
  notice: string;
  models: Models;
  connection: Connection;
}

function ModelStep({ onNext }: { onNext(): void }) {
  const { api } = useEngine();
  const providers = useLoaded<Providers>((a) => a.providers());
  const connections = useLoaded<Connections>((a) => a.connections(), ["connections_changed"]);
  const [connected, setConnected] = useState<Connected | null>(null);
  const [chosen, setChosen] = useState("");
  const act = useAct();

  const connectedTo = async ({ connection, notice }: Saved) => {
    const models = await api.models();
    const own = models.models.filter((model) => model.ref.startsWith(`${connection.id}/`));
    setChosen(own[0]?.ref ?? "");
    setConnected({ notice, models: { ...models, models: own }, connection });
  };
  const takeDemo = () =>
    void act.run(async () => {
      await api.change({ model: "demo/canned" });
      onNext();
    });
  const finish = () =>
    void act.run(async () => {
      if (chosen) await api.change({ model: chosen });
      onNext();
    });

  if (connected) {
    const { connection } = connected;
    const problem = connected.models.errors.find((e) => e.connection === connection.id);
    if (problem) {
      // The same connection is put right, so that a mistyped address leaves none behind that always fails.
      return (
        <div className="stack">
          <ErrorNote error={new Error(problem.error)} />
          <p>{t.start.problemTodo}</p>
          <ConnectionForm
            key={problem.error}
            connection={connection}
            apis={providers.value?.apis ?? []}
            keys={connections.value?.keys ?? null}
            onSaved={(saved) => void act.run(() => connectedTo(saved))}
          />
          <ErrorNote error={act.error} />
          <div className="row wrap">
            <button
              type="button"
              disabled={act.busy}
              onClick={() =>
                void act.run(async () => {
                  await api.removeConnection(connection.id);
                  setConnected(null);
                })
              }
            >
              {t.start.forget}
            </button>
            <button type="button" disabled={act.busy} onClick={onNext}>
              {t.common.skip}
            </button>
          </div>
        </div>
      );
    }
    return (
      <div className="stack">
        <p className="note good" role="status">
          {t.start.chosen(oneLine(connection.name, 80))}
        </p>
        {connected.notice ? (
          <p className="note warn">
            <Foreign text={connected.notice} longest={600} />
          </p>
        ) : null}
        {connected.models.models.length > 0 ? (
          <ModelPick label={t.start.pickModel} models={connected.models.models} chosen={chosen} onChoose={setChosen} />
        ) : (
          <p>{t.settings.testEmpty}</p>
        )}
        <ErrorNote error={act.error} />
        <div className="row wrap">
          <button type="button" className="primary" disabled={act.busy} onClick={finish}>
            {t.common.next}
          </button>
          <button type="button" onClick={() => setConnected(null)}>
            {t.common.back}
          </button>
        </div>
      </div>
    );
  }
  return (
    <div className="stack loose">
      <p>{t.start.modelIntro}</p>
      {connections.value ? <LockedBanner keys={connections.value.keys} onDone={connections.reload} /> : null}
      {connections.value && connections.value.connections.length > 0 ? (
        <section className="stack tight" aria-labelledby="already">
          <h2 id="already">{t.start.already}</h2>
          {connections.value.connections.map((connection) => (
            <div key={connection.id} className="line">
              <div className="grow">
                <p className="strong">
                  <Foreign text={connection.name} longest={80} />
                </p>
                <p className="quiet mono">
                  <Foreign text={connection.baseUrl} longest={120} />
                </p>
              </div>
              <button
                type="button"
                className="primary"
                disabled={act.busy}
                onClick={() => void act.run(() => connectedTo({ connection, notice: "" }))}
              >
                {t.start.use(oneLine(connection.name, 40))}
              </button>
            </div>
          ))}
        </section>
      ) : null}
      <AddConnection
        keys={connections.value?.keys ?? null}
        onSaved={(saved) => void act.run(() => connectedTo(saved))}
      />
      <section className="stack tight">
        <h2>{t.start.demo}</h2>
        <p className="quiet">{t.start.demoHint}</p>
        <div className="row wrap">
          <button type="button" disabled={act.busy} onClick={takeDemo}>
            {t.start.useDemo}
          </button>
          <button type="button" onClick={onNext}>
            {t.common.skip}
          </button>
        </div>
      </section>
      <ErrorNote error={act.error} />
    </div>
  );
}

function AppStep({ onDone }: { onDone(open: string | null): void }) {
  const launch = useLoaded<Launch>((a) => a.launch(), ["apps_changed"]);
  const [reviewing, setReviewing] = useState<string | null>(null);
  if (reviewing !== null) {
    return <Review box={reviewing} onAdded={(id) => onDone(id)} onCancel={() => setReviewing(null)} />;
  }
  if (!launch.value) {
    return launch.error ? (
      <ErrorNote error={launch.error} retry={launch.reload} />
    ) : (
      <p role="status">{t.common.loading}</p>
    );
  }
  const { box } = launch.value;
  return (
    <div className="stack">
      <p>{t.start.appIntro}</p>
      {box.length === 0 ? <p className="quiet">{t.start.noBox}</p> : null}
      {box.map((app) => (
        <div key={app.id} className="line">
          <Tile id={app.id} name={app.name} />
          <div className="grow">
            <p className="strong">
              <Foreign text={app.name} longest={80} />
            </p>
            <p className="quiet">
              <Foreign text={app.description} longest={200} />
            </p>
          </div>
          <button type="button" className="primary" onClick={() => (app.added ? onDone(app.id) : setReviewing(app.id))}>
            {app.added ? t.start.open(oneLine(app.name, 40)) : t.start.review(oneLine(app.name, 40))}
          </button>
        </div>
      ))}
    </div>
  );
}
