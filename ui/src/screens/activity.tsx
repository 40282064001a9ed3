import { useCallback, useEffect, useState } from "react";
import { type ActivityEntry, type ActivityKind, readActivity } from "../api";
import { formatBytes, formatClock, formatMoment, t } from "../i18n";
import { ErrorNote } from "../parts/error";
import { Foreign } from "../parts/text";
import { useAct, useEngine } from "../state";

const PAGE = 100;
/** Entries kept in the list while it is open; the log itself keeps them all. */
const MOST_SHOWN = 2000;
const KINDS: ("all" | ActivityKind)[] = ["all", "connection", "refusal", "model", "error"];

/** Every outgoing connection, refusal and model call, as the engine wrote them down. */
export default function Activity() {
  const { api, listen } = useEngine();
  const [kind, setKind] = useState<"all" | ActivityKind>("all");
  const [entries, setEntries] = useState<ActivityEntry[] | null>(null);
  const [more, setMore] = useState(false);
  const { run, error, busy } = useAct();

  const load = useCallback(
    async (before?: string) => {
      const page = await api.activity({
        limit: PAGE,
        ...(kind === "all" ? {} : { kind }),
        ...(before ? { before } : {}),
      });
      setEntries((shown) => (before ? [...(shown ?? []), ...page] : page));
      setMore(page.length === PAGE);
    },
    [api, kind],
  );
  useEffect(() => {
    setEntries(null);
    void run(load);
    return listen((event) => {
      const entry = event.type === "activity" ? readActivity(event.payload) : null;
      if (!entry || (kind !== "all" && entry.kind !== kind)) return;
      // The same entry may be told again when its outcome is known.
      setEntries((shown) => [entry, ...(shown ?? []).filter((e) => e.id !== entry.id)].slice(0, MOST_SHOWN));
    });
  }, [run, load, listen, kind]);

  const last = entries?.at(-1);
  return (
    <main id="content" className="stack">
      <h1>{t.activity.title}</h1>
      <p className="quiet">{t.activity.intro}</p>
      <fieldset className="choices">
        <legend className="offscreen">{t.activity.filter}</legend>
        {KINDS.map((k) => (
          <label key={k}>
            <input type="radio" name="kind" checked={kind === k} onChange={() => setKind(k)} />
            {t.activity.kinds[k]}
          </label>
        ))}
      </fieldset>
      <ErrorNote error={error} retry={() => void run(load)} />
      {entries === null && !error ? <p role="status">{t.common.loading}</p> : null}
      {entries?.length === 0 ? (
        <p className="note">{kind === "all" ? t.activity.none : t.activity.noneOfKind}</p>
      ) : null}
      {entries && entries.length > 0 ? (
        <table className="activity">
          <thead>
            <tr>
              <th scope="col">{t.activity.when}</th>
              <th scope="col">{t.activity.who}</th>
              <th scope="col">{t.activity.what}</th>
              <th scope="col">{t.activity.where}</th>
              <th scope="col">{t.activity.result}</th>
            </tr>
          </thead>
          <tbody>
            {entries.map((entry) => (
              <Row key={entry.id} entry={entry} />
            ))}
          </tbody>
        </table>
      ) : null}
      {more && last ? (
        <div>
          <button type="button" disabled={busy} onClick={() => void run(() => load(last.id))}>
            {t.activity.older}
          </button>
        </div>
      ) : null}
    </main>
  );
}

function Row({ entry }: { entry: ActivityEntry }) {
  const kind = Object.hasOwn(t.activity.entry, entry.kind) ? t.activity.entry[entry.kind as ActivityKind] : entry.kind;
  const amounts = [
    // A model call counts the tokens of its prompt.
    entry.bytesSent
      ? entry.kind === "model"
        ? t.activity.tokensSent(entry.bytesSent)
        : t.activity.sent(formatBytes(entry.bytesSent))
      : "",
    entry.bytesReceived ? t.activity.received(formatBytes(entry.bytesReceived)) : "",
  ].filter(Boolean);
  return (
    <tr className={entry.kind === "refusal" || entry.kind === "error" ? "bad" : undefined}>
      <td title={formatMoment(entry.at)}>{formatClock(entry.at)}</td>
      <td>
        <Foreign text={entry.app || entry.caller} longest={80} />
      </td>
      <td>
        <Foreign text={kind} longest={40} />
      </td>
      <td className="mono">
        <Foreign text={entry.target} longest={200} />
      </td>
      <td>
        <Foreign text={[entry.outcome, entry.status ?? ""].filter((part) => part !== "").join(" ")} longest={80} />
        {amounts.length > 0 ? <span className="quiet"> {amounts.join(", ")}</span> : null}
        {entry.detail ? (
          <details>
            <summary>{t.common.details}</summary>
            <Foreign text={entry.detail} longest={2000} />
          </details>
        ) : null}
      </td>
    </tr>
  );
}
