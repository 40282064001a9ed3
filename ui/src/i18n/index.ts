import { en } from "./en";

// One catalogue per language. English is the model: another language is an object of the same type, so that a
// missing text does not compile.

export type Catalogue = typeof en;

const catalogues: Record<string, Catalogue> = { en };

function pick(wanted: readonly string[]): [string, Catalogue] {
  for (const tag of wanted) {
    const language = tag.toLowerCase().split("-")[0] ?? "";
    const catalogue = Object.hasOwn(catalogues, language) ? catalogues[language] : undefined;
    if (catalogue) return [language, catalogue];
  }
  return ["en", en];
}

const wanted = typeof navigator === "undefined" ? [] : (navigator.languages ?? []);

/** The texts of the person's language, and its tag for the page's `lang`. */
export const [language, t] = pick(wanted);

const locale = wanted[0];
const whole = new Intl.NumberFormat(locale);
const moment = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "medium" });
const clock = new Intl.DateTimeFormat(locale, { timeStyle: "medium" });

export const formatNumber = (n: number): string => whole.format(n);
/** A time in milliseconds since 1970, with its date. Empty for a number that is not a date. */
export const formatMoment = (ms: number): string => (Math.abs(ms) <= 8.64e15 ? moment.format(ms) : "");
export const formatClock = (ms: number): string => (Math.abs(ms) <= 8.64e15 ? clock.format(ms) : "");

const byteUnits = ["byte", "kilobyte", "megabyte", "gigabyte"] as const;

/** A size in bytes, in decimal units as file managers show it. */
export function formatBytes(bytes: number): string {
  let value = Math.max(0, bytes);
  let unit = 0;
  while (value >= 1000 && unit < byteUnits.length - 1) {
    value /= 1000;
    unit += 1;
  }
  const unitName = byteUnits[unit] ?? "byte";
  return new Intl.NumberFormat(locale, {
    style: "unit",
    unit: unitName,
    unitDisplay: unit === 0 ? "long" : "short",
    maximumFractionDigits: value < 10 && unit > 0 ? 1 : 0,
  }).format(value);
}

const binaryUnits = ["KiB", "MiB", "GiB"] as const;

/** A size that is a limit, or is counted against one, in the powers of 1024 that limits are given in. */
export function formatBinary(bytes: number): string {
  let value = Math.max(0, bytes);
  if (value < 1024) return formatBytes(value);
  let unit = -1;
  while (value >= 1024 && unit < binaryUnits.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const digits = new Intl.NumberFormat(locale, { maximumFractionDigits: value < 100 ? 1 : 0 });
  return `${digits.format(value)}\u00a0${binaryUnits[unit] ?? ""}`;
}

const ago = new Intl.RelativeTimeFormat(locale, { numeric: "always", style: "short" });
const dayOnly = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeZone: "UTC" });

/** How long ago `ms` was at `now`: short, and never finer than it is true for the next moments. Empty for no date. */
export function formatAgo(ms: number, now: number): string {
  if (Math.abs(ms) > 8.64e15) return "";
  const seconds = Math.round((now - ms) / 1000);
  if (seconds < 5) return t.activity.now;
  if (seconds < 60) return ago.format(-seconds, "second");
  if (seconds < 3600) return ago.format(-Math.floor(seconds / 60), "minute");
  if (seconds < 86_400) return ago.format(-Math.floor(seconds / 3600), "hour");
  return ago.format(-Math.floor(seconds / 86_400), "day");
}

/** A day as the engine names it (`2026-11-30`). What is none is shown as it came. */
export function formatDay(day: string): string {
  const at = /^\d{4}-\d\d-\d\d$/.test(day) ? Date.parse(`${day}T00:00:00Z`) : Number.NaN;
  return Number.isNaN(at) ? day : dayOnly.format(at);
}

/** A price in US dollars; small ones keep two digits that count. */
export function formatCost(dollars: number): string {
  const small = dollars > 0 && dollars < 0.1;
  return new Intl.NumberFormat(locale, {
    style: "currency",
    currency: "USD",
    ...(small ? { maximumSignificantDigits: 2 } : {}),
  }).format(dollars);
}

const price = new Intl.NumberFormat(locale, {
  style: "currency",
  currency: "USD",
  minimumFractionDigits: 2,
  maximumFractionDigits: 6,
});

/** A price in US dollars as somebody set it: nothing of it is rounded away. */
export const formatPrice = (dollars: number): string => price.format(dollars);

/** How long something took. */
export function formatTook(ms: number): string {
  const [value, unit] = ms < 1000 ? [ms, "millisecond"] : ms < 60_000 ? [ms / 1000, "second"] : [ms / 60_000, "minute"];
  return new Intl.NumberFormat(locale, {
    style: "unit",
    unit,
    unitDisplay: "short",
    maximumFractionDigits: ms < 1000 || value >= 10 ? 0 : 1,
  }).format(value);
}
