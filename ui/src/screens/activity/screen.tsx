import { useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from "react";
import { CallError } from "../../api";
import { type ActivityEntry, readActivity } from "../../api-activity";
import { t } from "../../i18n";
import { ErrorNote } from "../../parts/error";
import { Field, Pick } from "../../parts/field";
import { oneLine } from "../../parts/text";
import { go } from "../../route";
import { useAct, useEngine } from "../../state";
import { type Names, NamesContext, useNamesFor } from "./names";
import { ActivityTabs } from "./tabs";
import { isRunning, kindWord, OneTrace, outcomeWord } from "./trace";
import { byTrace, chainOf, merge } from "./tree";
import "./activity.css";

const PAGE = 100;
/** The most that one request answers. */
const MOST_AT_ONCE = 1000;
/** Entries kept in the list while it is open; the log itself keeps them all. */
const MOST_SHOWN = 3000;
/** How often the list is read again while somebody looks at it: how an entry ended is not told as an event. */
const READ_AGAIN_MS = 2000;
/** Events that come together are answered with one reading. */
const TOGETHER_MS = 250;
const KINDS = ["all", "connection", "refusal", "model", "tool", "error"] as const;
const OUTCOMES = Object.keys(t.activity.outcomes);

interface Wanted {
  app: string;
  kind: (typeof KINDS)[number];
  outcome: string;
  /** Everything that came of one call; the other filters rest meanwhile. */
  trace: string;
}

/** Every outgoing connection, refusal and model call, as the engine wrote them down, with who caused each. */
export default function Activity({ app }: { app: string }) {
  const [wanted, setWanted] = useState<Wanted>({ app, kind: "all", outcome: "", trace: "" });
  const [query, setQuery] = useState("");
  const [live, setLive] = useState(true);
  const log = useLog(wanted, live);
  const { names, apps } = useNamesFor(log.entries ?? NONE);
  const stop = useStop(names);

  const typed = useDeferredValue(query);
  const traces = useMemo(() => {
    const words = typed.toLocaleLowerCase().split(/\s+/).filter(Boolean);
    const fits = (entry: ActivityEntry) => {
      const text = searched(entry, names);
      return words.every((word) => text.includes(word));
    };
    const entries = log.entries ?? NONE;
    return byTrace(words.length === 0 ? entries : entries.filter(fits));
  }, [log.entries, names, typed]);

  const narrowed = wanted.app !== "" || wanted.kind !== "all" || wanted.outcome !== "" || wanted.trace !== "";
  // An app's calls are shown whole; by the other filters only a part of a call may be left.
  const partial = wanted.trace === "" && (wanted.kind !== "all" || wanted.outcome !== "" || typed !== "");
  const narrow = (part: Partial<Wanted>) => setWanted({ ...wanted, ...part });
  const showAll = () => {
    setQuery("");
    setWanted({ app: "", kind: "all", outcome: "", trace: "" });
  };
  // An app that is gone can still be chosen when the page was opened for it.
  const choices =
    wanted.app === "" || apps.some((one) => one.id === wanted.app) ? apps : [NAMELESS(wanted.app), ...apps];

  return (
    <NamesContext value={names}>
      <main id="content" className="stack">
        <div className="row wrap head">
          <h1 className="grow">{t.activity.title}</h1>
          <ActivityTabs now="log" />
          <label className="switch">
            <input
              type="checkbox"
              role="switch"
              aria-checked={live}
              checked={live}
              onChange={(event) => setLive(event.target.checked)}
            />
            <span>{t.activity.live}</span>
          </label>
        </div>
        <p className="quiet">{live ? t.activity.intro : t.activity.paused}</p>
        {wanted.trace === "" ? (
          <div className="stack tight">
            <fieldset className="choices">
              <legend className="offscreen">{t.activity.filter}</legend>
              {KINDS.map((kind) => (
                <label key={kind}>
                  <input type="radio" name="kind" checked={wanted.kind === kind} onChange={() => narrow({ kind })} />
                  {t.activity.kinds[kind]}
                </label>
              ))}
            </fieldset>
            <div className="filters">
              <Pick label={t.activity.app} value={wanted.app} onValue={(id) => narrow({ app: id })}>
                <option value="">{t.activity.allApps}</option>
                {choices.map((one) => (
                  <option key={one.id} value={one.id}>
                    {oneLine(one.name, 60)}
                  </option>
                ))}
              </Pick>
              <Pick label={t.activity.outcome} value={wanted.outcome} onValue={(outcome) => narrow({ outcome })}>
                <option value="">{t.activity.anyOutcome}</option>
                {OUTCOMES.map((outcome) => (
                  <option key={outcome} value={outcome}>
                    {outcomeWord(outcome)}
                  </option>
                ))}
              </Pick>
              <div className="filter-text">
                <Field label={t.activity.search} type="search" value={query} onValue={setQuery} />
              </div>
              {wanted.app === "" ? null : (
                <button type="button" disabled={stop.busy} onClick={() => stop.run(wanted.app)}>
                  {stop.busy ? t.activity.stopping : t.activity.stop(names.app(wanted.app))}
                </button>
              )}
            </div>
          </div>
        ) : (
          <p className="note row wrap">
            <span className="grow">{t.activity.oneCall}</span>
            <button type="button" className="small" onClick={() => narrow({ trace: "" })}>
              {t.activity.backToAll}
            </button>
          </p>
        )}
        <p role="status" className={stop.said ? "note good" : "offscreen"}>
          {stop.said}
        </p>
        <ErrorNote error={stop.error} />
        <ErrorNote error={log.error} retry={log.reload} />
        {log.entries === null && !log.error ? <p role="status">{t.common.loading}</p> : null}
        {log.entries && traces.length === 0 ? <Empty narrowed={narrowed || typed !== ""} onAll={showAll} /> : null}
        <ul className="traces">
          {traces.map((one) => (
            <OneTrace
              key={one.key}
              entries={one.entries}
              onWhole={one.trace !== "" && partial ? () => narrow({ trace: one.trace }) : undefined}
              onStop={one.entries.some(isRunning) ? stop.run : undefined}
            />
          ))}
        </ul>
        {log.more ? (
          <div>
            <button type="button" disabled={log.busy} onClick={log.older}>
              {t.activity.older}
            </button>
          </div>
        ) : null}
      </main>
    </NamesContext>
  );
}

const NONE: readonly ActivityEntry[] = [];
const NAMELESS = (id: string) => ({ id, name: id });

/** All that the search looks through, as it is shown. */
function searched(entry: ActivityEntry, names: Names): string {
  const who = chainOf(entry).map((label, at, all) => names.who(label, all[at - 1]));
  const what = [entry.target, entry.model, entry.detail].map((text) => names.withConnections(text));
  const text = [...who, ...what, kindWord(entry.kind), outcomeWord(entry.outcome), entry.status ?? ""].join(" ");
  return text.toLocaleLowerCase();
}

function Empty({ narrowed, onAll }: { narrowed: boolean; onAll(): void }) {
  return (
    <div className="note">
      <p className="strong">{narrowed ? t.activity.noneFits : t.activity.none}</p>
      {narrowed ? null : <p>{t.activity.noneTodo}</p>}
      {narrowed ? (
        <button type="button" onClick={onAll}>
          {t.activity.showAll}
        </button>
      ) : (
        <button type="button" className="primary" onClick={() => go({ screen: "home" })}>
          {t.activity.noneApps}
        </button>
      )}
    </div>
  );
}

/** Ends what an app has running, and says what that was. */
function useStop(names: Names) {
  const { api } = useEngine();
  const { run, busy, error } = useAct();
  const [said, setSaid] = useState("");
  const latest = useRef(names);
  latest.current = names;
  const stop = useCallback(
    (app: string) => {
      setSaid("");
      void run(async () => {
        const n = await api.stopApp(app);
        setSaid(t.activity.stopped(latest.current.app(app), n));
      });
    },
    [api, run],
  );
  return { run: stop, busy, error, said };
}

/** The newest entries that fit, kept up to date while the page is looked at, and older ones when asked for. */
function useLog(wanted: Wanted, live: boolean) {
  const { api, listen, signedOut } = useEngine();
  const [entries, setEntries] = useState<readonly ActivityEntry[] | null>(null);
  const [more, setMore] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const { run, error: olderError, busy } = useAct();
  const shown = useRef<readonly ActivityEntry[]>(NONE);
  const { app, kind, outcome, trace } = wanted;
  const show = useCallback((next: readonly ActivityEntry[]) => {
    shown.current = next.length > MOST_SHOWN ? next.slice(0, MOST_SHOWN) : next;
    setEntries(shown.current);
  }, []);
  // What arrives for another filter than the one that is chosen now is not shown.
  const turn = useRef(0);

  const read = useCallback(
    (page: { before?: string; limit: number }) =>
      api.activity(trace ? { trace } : { app, outcome, ...(kind === "all" ? {} : { kind }) }, page),
    [api, app, kind, outcome, trace],
  );
  const readNewest = useCallback(async () => {
    const { current } = turn;
    // Down to the oldest that still runs, so that its end is seen.
    const limit = Math.min(MOST_AT_ONCE, Math.max(PAGE, shown.current.findLastIndex(isRunning) + 1));
    const page = await read({ limit });
    if (current !== turn.current) return;
    const kept = shown.current;
    const next = merge(kept, page, limit);
    show(next);
    if (next.length <= page.length) setMore(page.length === limit);
  }, [read, show]);
  const reload = useCallback(async () => {
    const { current } = turn;
    try {
      await readNewest();
      if (current === turn.current) setError(null);
    } catch (failed) {
      if (failed instanceof CallError && failed.status === 401) signedOut();
      if (current === turn.current) setError(failed);
    }
  }, [readNewest, signedOut]);

  useEffect(() => {
    turn.current += 1;
    shown.current = NONE;
    setEntries(null);
    setMore(false);
    setError(null);
    void reload();
  }, [reload]);

  useEffect(() => {
    if (!live) return;
    let soon: ReturnType<typeof setTimeout> | undefined;
    let reading = false;
    const again = async () => {
      soon = undefined;
      if (reading || document.visibilityState === "hidden") return;
      reading = true;
      await reload();
      reading = false;
    };
    const timer = setInterval(() => void again(), READ_AGAIN_MS);
    const stop = listen((event) => {
      if (event.type !== "activity") return;
      const entry = readActivity(event.payload);
      const fits = entry && trace === "" && kind === "all" && app === "" && outcome === "";
      if (fits) show([entry, ...shown.current.filter((one) => one.id !== entry.id)]);
      soon ??= setTimeout(() => void again(), TOGETHER_MS);
    });
    return () => {
      clearInterval(timer);
      clearTimeout(soon);
      stop();
    };
  }, [live, listen, reload, show, trace, kind, app, outcome]);

  const older = () =>
    void run(async () => {
      const { current } = turn;
      const last = shown.current.at(-1);
      if (!last) return;
      const page = await read({ before: last.id, limit: PAGE });
      if (current !== turn.current) return;
      const known = new Set(shown.current.map((entry) => entry.id));
      show([...shown.current, ...page.filter((entry) => !known.has(entry.id))]);
      setMore(page.length === PAGE && shown.current.length < MOST_SHOWN);
    });
  return { entries, more, error: error ?? olderError, busy, older, reload: () => void reload() };
}
