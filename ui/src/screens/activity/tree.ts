import type { ActivityEntry } from "../../api-activity";

// What came of one call, as a tree: who began it, through whom it went, what came of it.

/** Someone on the way, with what they did and whom they called, in the order in which it happened. */
export interface Step {
  /** Who, outermost first. Several, where one only handed on to the next. */
  who: string[];
  items: (ActivityEntry | Step)[];
}
/** All entries of one call. */
export interface Trace {
  key: string;
  trace: string;
  /** Newest first, as they came. */
  entries: ActivityEntry[];
}

export const isStep = (item: ActivityEntry | Step): item is Step => "who" in item;

/** Gathers entries, newest first, by the call that they came of. The call with the newest entry comes first. */
export function byTrace(entries: readonly ActivityEntry[]): Trace[] {
  const traces = new Map<string, Trace>();
  for (const entry of entries) {
    const key = entry.trace === "" ? `entry ${entry.id}` : `trace ${entry.trace}`;
    const known = traces.get(key);
    if (known) known.entries.push(entry);
    else traces.set(key, { key, trace: entry.trace, entries: [entry] });
  }
  return [...traces.values()];
}

/** The chain of an entry as a list. The caller stands in it, at the end where the chain does not name it. */
export function chainOf(entry: ActivityEntry): string[] {
  const chain = entry.chain.split(" > ").filter((who) => who !== "");
  if (chain.length === 0 || (entry.caller !== "" && !chain.includes(entry.caller))) chain.push(entry.caller);
  // Calls stand at most five deep; more than a screen can show is not one of the engine's.
  return chain.length > 12 ? [...chain.slice(0, 11), chain.at(-1) ?? ""] : chain;
}

/** A list of models asked for on this machine, and the port. */
const ASKED_HERE = /^GET http:\/\/(?:127\.0\.0\.1|localhost|\[::1\]):(\d+)\/(?:\S*\/)?(?:models|tags)$/;
/** Ports in one call from which on it is looking around, and not somebody's own connections. */
const MANY_PORTS = 5;

/**
 * How many ports were asked, and answered, when a call was nothing but Chrysalis looking for model servers on this
 * machine. That most do not answer is no failure. Null for every other call.
 */
export function lookedAround(entries: readonly ActivityEntry[]): { asked: number; answered: number } | null {
  const asked = new Set<string>();
  const answered = new Set<string>();
  let said = false;
  for (const entry of entries) {
    const port = entry.kind === "connection" && entry.app === "" && ASKED_HERE.exec(entry.target)?.[1];
    if (!port) return null;
    asked.add(port);
    if (entry.status !== null) answered.add(port);
    said ||= entry.detail === "probe";
  }
  return said || asked.size >= MANY_PORTS ? { asked: asked.size, answered: answered.size } : null;
}

/** The tree of one call's entries. Several roots only where the chains begin with different callers. */
export function treeOf(entries: readonly ActivityEntry[]): Step[] {
  const top: Step = { who: [], items: [] };
  for (const entry of [...entries].reverse()) {
    let step = top;
    for (const who of chainOf(entry)) {
      let next = step.items.find((item): item is Step => isStep(item) && item.who[0] === who);
      if (!next) {
        next = { who: [who], items: [] };
        step.items.push(next);
      }
      step = next;
    }
    step.items.push(entry);
  }
  return top.items.filter(isStep).map(shorten);
}

/** Joins those who only handed on. */
function shorten(step: Step): Step {
  const items = step.items.map((item) => (isStep(item) ? shorten(item) : item));
  const [only] = items;
  if (items.length === 1 && only && isStep(only)) return { who: [...step.who, ...only.who], items: only.items };
  return { who: step.who, items };
}

const same = (a: ActivityEntry, b: ActivityEntry): boolean =>
  (Object.keys(a) as (keyof ActivityEntry)[]).every((key) => a[key] === b[key]);

/**
 * The list after its newest `limit` entries were read again. Entries that did not change stay the same objects, so that
 * they are not drawn again. When more happened than was read, the list begins anew, rather than with a hole.
 */
export function merge(
  shown: readonly ActivityEntry[],
  page: readonly ActivityEntry[],
  limit: number,
): readonly ActivityEntry[] {
  const known = new Map(shown.map((entry) => [entry.id, entry]));
  const fresh = page.map((entry) => {
    const old = known.get(entry.id);
    return old && same(old, entry) ? old : entry;
  });
  const last = page.at(-1);
  const all = page.length < limit || last === undefined || !page.some((entry) => known.has(entry.id));
  // Within what was read, what is not there any more no longer fits the filter.
  const older = all ? [] : shown.filter((entry) => Number(entry.id) < Number(last.id));
  const next = [...fresh, ...older];
  return next.length === shown.length && next.every((entry, at) => entry === shown[at]) ? shown : next;
}
