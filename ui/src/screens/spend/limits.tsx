import { useState } from "react";
import type { AppCard } from "../../api";
import { type AllLimits, type Limits, MEASURES, type Measure, noLimits, SPANS, type Span } from "../../api-spend";
import { formatCost, formatNumber, t } from "../../i18n";
import { readAmount } from "../../parts/amount";
import { ErrorNote } from "../../parts/error";
import { Field, Pick } from "../../parts/field";
import { oneLine } from "../../parts/text";
import { useAct, useEngine, useLoaded } from "../../state";
import type { NameOf } from "./screen";

/** The limits over all apps and of single ones; off until somebody sets one. */
export function SpendLimits({ apps, nameOf }: { apps: AppCard[]; nameOf: NameOf }) {
  const limits = useLoaded<AllLimits>((a) => a.spendLimits());
  const [editing, setEditing] = useState<string | null>(null);
  const value = limits.value;
  const limited = Object.keys(value?.apps ?? {});
  const free = apps.filter((app) => !limited.includes(app.id) && app.id !== editing);
  const rows = value === null ? [] : ["", ...limited];
  if (editing !== null && !rows.includes(editing)) rows.push(editing);
  return (
    <section className="stack tight" aria-labelledby="limits">
      <h2 id="limits">{t.spend.limits}</h2>
      <p className="quiet">{t.spend.limitsIntro}</p>
      <ErrorNote error={limits.error} retry={limits.reload} />
      {rows.map((app) => {
        const name = app === "" ? t.spend.all : nameOf(app);
        const of = (app === "" ? value?.all : value?.apps[app]) ?? noLimits();
        return (
          <div key={app} className="panel stack tight">
            <div className="row wrap">
              <div className="grow">
                <h3>
                  <bdi>{name}</bdi>
                </h3>
                <p className="quiet">{summary(of) || t.spend.noLimits}</p>
              </div>
              {editing === app ? null : (
                <button
                  type="button"
                  className="small"
                  aria-label={t.spend.changeOf(name)}
                  onClick={() => setEditing(app)}
                >
                  {t.spend.change}
                </button>
              )}
            </div>
            {editing === app ? (
              <LimitsForm
                app={app}
                name={name}
                limits={of}
                onClose={() => setEditing(null)}
                onSaved={(next) => {
                  limits.set(next);
                  setEditing(null);
                }}
              />
            ) : null}
          </div>
        );
      })}
      {value && free.length > 0 ? (
        <div className="limit-app">
          <Pick label={t.spend.addLimit} value="" onValue={(app) => setEditing(app === "" ? null : app)}>
            <option value="">{t.spend.chooseApp}</option>
            {free.map((app) => (
              <option key={app.id} value={app.id}>
                {oneLine(app.name, 60)}
              </option>
            ))}
          </Pick>
        </div>
      ) : null}
    </section>
  );
}

const amountWords = (measure: Measure, n: number): string =>
  measure === "usd" ? formatCost(n) : t.spend.amounts[measure](formatNumber(n));

function summary(limits: Limits): string {
  const words = [];
  for (const span of SPANS) {
    for (const measure of MEASURES) {
      const n = limits[span][measure];
      if (n !== null) words.push(t.spend.limit(amountWords(measure, n), t.spend.spanWords[span]));
    }
  }
  return words.join(" · ");
}

interface FormProps {
  app: string;
  name: string;
  limits: Limits;
  onSaved(limits: AllLimits): void;
  onClose(): void;
}

type Texts = Record<Span, Record<Measure, string>>;

function LimitsForm({ app, name, limits, onSaved, onClose }: FormProps) {
  const { api } = useEngine();
  const act = useAct();
  const [wrong, setWrong] = useState(false);
  const [texts, setTexts] = useState<Texts>(() => {
    const of = (span: Span) => {
      const text = (measure: Measure) => String(limits[span][measure] ?? "");
      return { usd: text("usd"), tokens: text("tokens"), images: text("images"), speechSeconds: text("speechSeconds") };
    };
    return { day: of("day"), month: of("month") };
  });
  const put = (next: Limits) =>
    void act.run(async () => {
      onSaved(await api.setSpendLimits(app, next));
    });
  const save = () => {
    const next = noLimits();
    let bad = false;
    for (const span of SPANS) {
      for (const measure of MEASURES) {
        const n = readAmount(texts[span][measure], measure === "tokens" || measure === "images");
        bad ||= Number.isNaN(n);
        next[span][measure] = n;
      }
    }
    setWrong(bad);
    if (!bad) put(next);
  };
  return (
    <form
      className="stack"
      aria-label={t.spend.of(name)}
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        save();
      }}
    >
      {SPANS.map((span) => (
        <fieldset key={span} className="limit-span">
          <legend>{t.spend.spans[span]}</legend>
          <div className="limits">
            {MEASURES.map((measure) => (
              <Field
                key={measure}
                label={t.spend.measures[measure]}
                aria-label={`${t.spend.measures[measure]}, ${t.spend.spanWords[span]}`}
                inputMode="decimal"
                autoComplete="off"
                value={texts[span][measure]}
                onValue={(text) => setTexts({ ...texts, [span]: { ...texts[span], [measure]: text } })}
              />
            ))}
          </div>
        </fieldset>
      ))}
      {wrong ? (
        <p className="note bad" role="alert">
          {t.spend.bad}
        </p>
      ) : null}
      <ErrorNote error={act.error} />
      <div className="row wrap">
        <button type="submit" className="primary" disabled={act.busy}>
          {t.spend.save}
        </button>
        {summary(limits) ? (
          <button type="button" disabled={act.busy} onClick={() => put(noLimits())}>
            {t.spend.removeAll}
          </button>
        ) : null}
        <button type="button" onClick={onClose}>
          {t.common.cancel}
        </button>
      </div>
    </form>
  );
}
