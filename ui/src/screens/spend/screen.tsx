import type { AppCard } from "../../api";
import type { Spend, Spent } from "../../api-spend";
import { formatCost, formatDay, formatNumber, formatTook, t } from "../../i18n";
import { ErrorNote } from "../../parts/error";
import { oneLine } from "../../parts/text";
import { go, writeRoute } from "../../route";
import { useLoaded, useReread } from "../../state";
import { ActivityTabs } from "../activity/tabs";
import { SpendLimits } from "./limits";
import "./spend.css";

const DAYS = 30;
/** How often it is read again while it is looked at. */
const REREAD_MS = 10_000;

export type NameOf = (app: string, removed?: boolean) => string;

/** Activity → Spending: what models cost, by day and app, and the limits for it. */
export default function Spending() {
  const spend = useLoaded<Spend>((a) => a.spend(DAYS));
  const launch = useLoaded((a) => a.launch(), ["apps_changed"]);
  useReread(spend.reload, REREAD_MS);
  const apps: AppCard[] = launch.value?.apps ?? [];
  const nameOf: NameOf = (app, removed) => {
    if (removed) return t.spend.removed;
    if (app === "") return t.spend.chrysalis;
    return oneLine(apps.find((one) => one.id === app)?.name ?? app, 60) || t.common.unnamed;
  };
  const value = spend.value;
  return (
    <main id="content" className="stack loose">
      <div className="row wrap head">
        <h1 className="grow">{t.spend.title}</h1>
        <ActivityTabs now="spend" />
      </div>
      <p className="quiet">{t.spend.intro}</p>
      <ErrorNote error={spend.error} retry={spend.reload} />
      {value === null ? null : value.month.calls === 0 && value.days.every((day) => day.calls === 0) ? (
        <div className="note">
          <p className="strong">{t.spend.nothing}</p>
          <p>{t.spend.nothingTodo}</p>
          <button type="button" className="primary" onClick={() => go({ screen: "home" })}>
            {t.activity.noneApps}
          </button>
        </div>
      ) : (
        <Sums spend={value} nameOf={nameOf} />
      )}
      <ErrorNote error={launch.error} retry={launch.reload} />
      <SpendLimits apps={apps} nameOf={nameOf} />
    </main>
  );
}

/** The sum of a time, or no sum where none of its calls had a known price. */
const costOf = (spent: Spent): string =>
  spent.calls > 0 && spent.unpricedCalls >= spent.calls ? t.modelTable.unknown : formatCost(spent.cost);

function extras(spent: Spent): string[] {
  const words = [];
  if (spent.tokensIn + spent.tokensOut > 0) {
    words.push(t.spend.tokens(formatNumber(spent.tokensIn), formatNumber(spent.tokensOut)));
  }
  if (spent.images > 0) words.push(t.spend.images(formatNumber(spent.images)));
  if (spent.speechSeconds > 0) words.push(t.spend.speech(formatTook(spent.speechSeconds * 1000)));
  return words;
}

function Sum({ title, spent }: { title: string; spent: Spent }) {
  return (
    <section className="panel sum" aria-label={title}>
      <h2>{title}</h2>
      <p className="sum-cost">{costOf(spent)}</p>
      <p>{t.spend.calls(formatNumber(spent.calls - spent.unpricedCalls))}</p>
      {spent.unpricedCalls > 0 ? (
        <p className="sum-unknown">{t.spend.unpriced(formatNumber(spent.unpricedCalls))}</p>
      ) : null}
      {extras(spent).map((words) => (
        <p key={words} className="quiet">
          {words}
        </p>
      ))}
    </section>
  );
}

function Sums({ spend, nameOf }: { spend: Spend; nameOf: NameOf }) {
  const unknown = spend.month.unpricedCalls > 0 || spend.days.some((day) => day.unpricedCalls > 0);
  return (
    <>
      <div className="sums">
        <Sum title={t.spend.today} spent={spend.today} />
        <Sum title={t.spend.month} spent={spend.month} />
      </div>
      {unknown ? (
        <p className="quiet">
          {t.spend.unpricedNote} <a href={writeRoute({ screen: "settings", page: "models" })}>{t.spend.setPrices}</a>
        </p>
      ) : null}
      <Days days={spend.days} />
      {spend.apps.length > 0 ? (
        <section className="stack tight" aria-labelledby="by-app">
          <h2 id="by-app">{t.spend.apps}</h2>
          <SpentTable
            first={t.spend.app}
            rows={spend.apps.map((one) => ({
              key: `${one.removed}/${one.app}`,
              name: nameOf(one.app, one.removed),
              spent: one,
            }))}
          />
        </section>
      ) : null}
    </>
  );
}

/** A bar for each day; calls of unknown price are a mark below it, not a height. */
function Days({ days }: { days: Spend["days"] }) {
  const most = Math.max(0, ...days.map((day) => day.cost));
  const width = 100 / Math.max(1, days.length);
  return (
    <section className="stack tight" aria-labelledby="by-day">
      <div className="row wrap">
        <h2 id="by-day" className="grow">
          {t.spend.days}
        </h2>
        {most > 0 ? <span className="quiet">{t.spend.most(formatCost(most))}</span> : null}
      </div>
      <div className="days">
        <svg viewBox="0 0 100 100" preserveAspectRatio="none" role="img" aria-label={t.spend.daysLabel(days.length)}>
          {days.map((day, at) => (
            <g key={day.day}>
              <title>{`${oneLine(formatDay(day.day), 40)}: ${costOf(day)}`}</title>
              <rect className="day-back" x={at * width} width={width} y="0" height="100" />
              {day.cost > 0 ? (
                <rect
                  className="day-cost"
                  x={at * width + width * 0.1}
                  width={width * 0.8}
                  y={92 - (day.cost / most) * 92}
                  height={(day.cost / most) * 92}
                />
              ) : null}
              {day.unpricedCalls > 0 ? (
                <rect className="day-unknown" x={at * width + width * 0.1} width={width * 0.8} y="95" height="5" />
              ) : null}
            </g>
          ))}
        </svg>
        <p className="row quiet days-ends">
          <span className="grow">{oneLine(formatDay(days[0]?.day ?? ""), 40)}</span>
          <span>{oneLine(formatDay(days.at(-1)?.day ?? ""), 40)}</span>
        </p>
      </div>
      {days.some((day) => day.unpricedCalls > 0) ? (
        <p className="quiet days-key">
          <svg viewBox="0 0 16 4" aria-hidden="true">
            <rect className="day-unknown" width="16" height="4" />
          </svg>
          {t.spend.unknown}
        </p>
      ) : null}
      <details>
        <summary>{t.spend.asTable}</summary>
        <SpentTable
          first={t.spend.day}
          rows={days
            .filter((day) => day.calls > 0)
            .reverse()
            .map((day) => ({ key: day.day, name: oneLine(formatDay(day.day), 40), spent: day }))}
        />
      </details>
    </section>
  );
}

function SpentTable({ first, rows }: { first: string; rows: { key: string; name: string; spent: Spent }[] }) {
  return (
    <div className="spent-scroll">
      <table className="spent">
        <thead>
          <tr>
            <th scope="col">{first}</th>
            <th scope="col">{t.spend.cost}</th>
            <th scope="col">{t.spend.count}</th>
            <th scope="col">{t.spend.unknown}</th>
            <th scope="col">{t.spend.tokensHead}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.key}>
              <th scope="row">
                <bdi>{row.name}</bdi>
              </th>
              <td>{costOf(row.spent)}</td>
              <td>{formatNumber(row.spent.calls)}</td>
              <td>{formatNumber(row.spent.unpricedCalls)}</td>
              <td>{formatNumber(row.spent.tokensIn + row.spent.tokensOut)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
