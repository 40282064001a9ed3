import { useId, useState } from "react";
import { type Amount, BUDGETS, type Budget, type Usage as Counted } from "../../api-plugins";
import { formatBinary, formatDay, formatNumber, t } from "../../i18n";
import { ErrorNote } from "../../parts/error";
import { Field } from "../../parts/field";
import { oneLine } from "../../parts/text";
import { useAct, useEngine } from "../../state";

/** Bytes are entered in these: limits are whole numbers of them, 1 GiB unless somebody chose another. */
const MEBIBYTE = 1024 * 1024;
const inBytes = (budget: Budget): boolean => budget === "networkBytes" || budget === "diskBytes";
const shown = (budget: Budget, n: number): string => (inBytes(budget) ? formatBinary(n) : formatNumber(n));

/** What an app used of its budgets, as bars with their numbers, and a form that changes the limits. */
export function Usage({ app, usage, onChanged }: { app: string; usage: Counted; onChanged(): void }) {
  const [editing, setEditing] = useState(false);
  const id = useId();
  const { amounts } = usage;
  const ups = BUDGETS.filter((budget) => isUp(amounts[budget]));
  const up = ups.length > 0;
  const summary = up
    ? ups.map((budget) => `${t.usage.names[budget]}: ${t.usage.up}`).join(" · ")
    : t.usage.short(
        formatNumber(amounts.modelCalls.used),
        formatBinary(amounts.networkBytes.used),
        formatBinary(amounts.diskBytes.used),
      );
  return (
    <details className="panel used" aria-labelledby={id} open={up || undefined}>
      <summary id={id}>
        {t.usage.title} <span className={up ? "meter-up" : "quiet"}>{summary}</span>
      </summary>
      <ul className="meters">
        {BUDGETS.map((budget) => (
          <Meter key={budget} budget={budget} amount={usage.amounts[budget]} />
        ))}
      </ul>
      <p className="quiet">{t.usage.day(oneLine(formatDay(usage.day), 40))}</p>
      {editing ? (
        <Limits app={app} usage={usage} onChanged={onChanged} onClose={() => setEditing(false)} />
      ) : (
        <div>
          <button type="button" className="small" onClick={() => setEditing(true)}>
            {t.usage.edit}
          </button>
        </div>
      )}
    </details>
  );
}

const isUp = ({ used, limit }: Amount): boolean => limit !== null && used >= limit;

function Meter({ budget, amount: { used, limit } }: { budget: Budget; amount: Amount }) {
  const id = useId();
  const part = limit === null ? 0 : limit === 0 ? 1 : Math.min(1, used / limit);
  const up = isUp({ used, limit });
  const words =
    limit === null
      ? t.usage.free(shown(budget, used))
      : `${t.usage.of(shown(budget, used), shown(budget, limit))}${up ? `, ${t.usage.up}` : ""}`;
  return (
    <li>
      <div className="meter-words">
        <span id={id}>{t.usage.names[budget]}</span>
        <span className={up ? "meter-up" : "quiet"}>{words}</span>
      </div>
      {limit === null ? null : (
        <>
          <meter className="offscreen" aria-labelledby={id} aria-valuetext={words} min={0} max={1} value={part} />
          <svg className={up ? "bar up" : "bar"} viewBox="0 0 100 1" preserveAspectRatio="none" aria-hidden="true">
            <rect width={part * 100} height="1" />
          </svg>
        </>
      )}
    </li>
  );
}

interface LimitsProps {
  app: string;
  usage: Counted;
  onChanged(): void;
  onClose(): void;
}

function Limits({ app, usage, onChanged, onClose }: LimitsProps) {
  const { api } = useEngine();
  const act = useAct();
  const [bad, setBad] = useState(false);
  const [texts, setTexts] = useState<Record<Budget, string>>(() => {
    const text = (budget: Budget) => {
      const { limit } = usage.amounts[budget];
      return limit === null ? "" : String(inBytes(budget) ? limit / MEBIBYTE : limit);
    };
    return {
      modelCalls: text("modelCalls"),
      tokens: text("tokens"),
      networkBytes: text("networkBytes"),
      diskBytes: text("diskBytes"),
    };
  });
  const save = () => {
    const limits = {} as Record<Budget, number | null>;
    for (const budget of BUDGETS) {
      const text = texts[budget].trim();
      const n = Number(text);
      // A comma is a fraction to some and a thousand to others, so it is not guessed at.
      if (!/^(\d+(\.\d+)?)?$/.test(text) || n > Number.MAX_SAFE_INTEGER / MEBIBYTE) {
        setBad(true);
        return;
      }
      limits[budget] = text === "" ? null : Math.round(inBytes(budget) ? n * MEBIBYTE : n);
    }
    setBad(false);
    void act.run(async () => {
      await api.setBudget(app, limits);
      onChanged();
      onClose();
    });
  };
  return (
    <form
      className="stack tight"
      onSubmit={(event) => {
        event.preventDefault();
        save();
      }}
    >
      <div className="limits">
        {BUDGETS.map((budget) => (
          <Field
            key={budget}
            label={t.usage.limits[budget]}
            inputMode="decimal"
            value={texts[budget]}
            onValue={(text) => setTexts({ ...texts, [budget]: text })}
          />
        ))}
      </div>
      <p className="quiet">{t.usage.hint}</p>
      {bad ? (
        <p className="note bad" role="alert">
          {t.usage.bad}
        </p>
      ) : null}
      <ErrorNote error={act.error} />
      <div className="row wrap">
        <button type="submit" className="primary" disabled={act.busy}>
          {t.usage.save}
        </button>
        <button type="button" onClick={onClose}>
          {t.common.cancel}
        </button>
      </div>
    </form>
  );
}
