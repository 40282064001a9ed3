import { type Call, type Loose, list, num, object, str } from "./read";

// What models cost, and the limits for it.

export interface Spent {
  /** In US dollars, of the calls whose price is known. */
  cost: number;
  calls: number;
  /** Calls whose price is not known: not free, and in no sum. */
  unpricedCalls: number;
  tokensIn: number;
  tokensOut: number;
  images: number;
  speechSeconds: number;
}
export interface Spend {
  today: Spent;
  month: Spent;
  days: (Spent & { day: string })[];
  /** Of this month; an empty app is the launcher's own, or one that was removed. */
  apps: (Spent & { app: string; removed: boolean })[];
}
export const MEASURES = ["usd", "tokens", "images", "speechSeconds"] as const;
export const SPANS = ["day", "month"] as const;
export type Measure = (typeof MEASURES)[number];
export type Span = (typeof SPANS)[number];
/** Null is no limit. */
export type Limits = Record<Span, Record<Measure, number | null>>;
export interface AllLimits {
  all: Limits;
  apps: Record<string, Limits>;
}

const count = (value: unknown): number => Math.max(0, num(value) ?? 0);

function readSpent(value: unknown): Spent {
  const v = object(value);
  const unpricedCalls = count(v.unpricedCalls);
  return {
    cost: count(v.cost),
    calls: Math.max(count(v.calls), unpricedCalls),
    unpricedCalls,
    tokensIn: count(v.tokensIn),
    tokensOut: count(v.tokensOut),
    images: count(v.images),
    speechSeconds: count(v.speechSeconds),
  };
}

function readLimits(value: unknown): Limits {
  const v = object(value);
  const span = (given: unknown) => {
    const limit: Loose = object(given);
    const { usd, tokens, images, speechSeconds } = limit;
    return { usd: num(usd), tokens: num(tokens), images: num(images), speechSeconds: num(speechSeconds) };
  };
  return { day: span(v.day), month: span(v.month) };
}

export const noLimits = (): Limits => readLimits({});

function readAllLimits(value: unknown): AllLimits {
  const v = object(value);
  // Names of apps are foreign; one of them may be called like something that every object has.
  const apps = Object.assign(Object.create(null), {}) as Record<string, Limits>;
  for (const [app, limits] of Object.entries(object(v.apps))) apps[app] = readLimits(limits);
  return { all: readLimits(v.all), apps };
}

export function spendCalls(call: Call) {
  return {
    async spend(days: number): Promise<Spend> {
      const v = object(await call("GET", `/v1/spend?days=${days}`));
      return {
        today: readSpent(v.today),
        month: readSpent(v.month),
        days: list(v.days).map((d) => ({ ...readSpent(d), day: str(d.day) })),
        apps: list(v.apps).map((a) => ({ ...readSpent(a), app: str(a.app), removed: a.removed === true })),
      };
    },
    async spendLimits(): Promise<AllLimits> {
      return readAllLimits(await call("GET", "/v1/spend/limits"));
    },
    /** Of one app, or with "" over all of them. */
    async setSpendLimits(app: string, limits: Limits): Promise<AllLimits> {
      return readAllLimits(
        await call("PUT", "/v1/spend/limits", app === "" ? { all: limits } : { apps: { [app]: limits } }),
      );
    },
  };
}
