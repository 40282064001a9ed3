import { memo } from "react";
import type { ActivityEntry, ActivityKind } from "../../api-activity";
import { formatBytes, formatCost, formatNumber, formatTook, t } from "../../i18n";
import { Ago } from "../../parts/ago";
import { Icon, type IconName } from "../../parts/icon";
import { Foreign, ForeignBlock, oneLine } from "../../parts/text";
import { useNames } from "./names";
import { isStep, lookedAround, type Step, treeOf } from "./tree";

const SIGNS: Record<ActivityKind, IconName> = {
  connection: "connection",
  refusal: "refused",
  model: "model",
  tool: "tool",
  error: "error",
  stop: "stop",
};
/** A cause of more than this is folded away behind its first line. */
const SHORT_CAUSE = 280;

export const isRunning = (entry: ActivityEntry): boolean =>
  entry.outcome === "running" || entry.outcome === "connecting";
export const kindWord = (kind: string): string =>
  Object.hasOwn(t.activity.entry, kind) ? t.activity.entry[kind as ActivityKind] : kind;
export const outcomeWord = (outcome: string): string =>
  Object.hasOwn(t.activity.outcomes, outcome)
    ? t.activity.outcomes[outcome as keyof typeof t.activity.outcomes]
    : outcome;

interface Props {
  entries: ActivityEntry[];
  /** Given where there may be more of this call than is shown. */
  onWhole: (() => void) | undefined;
  /** Stops the app whose work is still running here. */
  onStop: ((app: string) => void) | undefined;
}

const alike = (a: Props, b: Props): boolean =>
  a.entries.length === b.entries.length &&
  a.entries.every((entry, at) => entry === b.entries[at]) &&
  (a.onWhole === undefined) === (b.onWhole === undefined) &&
  (a.onStop === undefined) === (b.onStop === undefined);

/** All that came of one call. Drawn again only when one of its entries is another. */
export const OneTrace = memo(function OneTrace({ entries, onWhole, onStop }: Props) {
  const names = useNames();
  const running = entries.find((entry) => entry.app !== "" && isRunning(entry));
  const looked = lookedAround(entries);
  const tree = treeOf(entries).map((step) => <Branch key={step.who.join(" ")} step={step} />);
  return (
    <li className="trace">
      {looked ? (
        <details className="looked">
          <summary>
            <span>{t.activity.probe(looked.asked, looked.answered)}</span> <Ago at={entries[0]?.at ?? 0} />
          </summary>
          {tree}
        </details>
      ) : (
        tree
      )}
      {onWhole || (running && onStop) ? (
        <div className="row wrap">
          {onWhole ? (
            <button type="button" className="link small" onClick={onWhole}>
              {t.activity.whole}
            </button>
          ) : null}
          {running && onStop ? (
            <button type="button" className="small" onClick={() => onStop(running.app)}>
              {t.activity.stop(names.app(running.app))}
            </button>
          ) : null}
        </div>
      ) : null}
    </li>
  );
}, alike);

function Branch({ step, after }: { step: Step; after?: string | undefined }) {
  const names = useNames();
  return (
    <div className="branch">
      <p className="branch-who">
        {step.who.map((who, at) => (
          <span key={`${at} ${who}`}>
            {at > 0 ? (
              <>
                <span aria-hidden="true"> › </span>
                <span className="offscreen"> {t.activity.through} </span>
              </>
            ) : null}
            <bdi>{names.who(who, step.who[at - 1] ?? after)}</bdi>
          </span>
        ))}
      </p>
      <ul>
        {step.items.map((item) =>
          isStep(item) ? (
            <li key={`step ${item.who.join(" ")}`}>
              <Branch step={item} after={step.who.at(-1)} />
            </li>
          ) : (
            <li key={item.id}>
              <Row entry={item} />
            </li>
          ),
        )}
      </ul>
    </div>
  );
}

/** How much went and came, what it took and what it cost. */
export function amounts(entry: ActivityEntry): string[] {
  const model = entry.kind === "model";
  // Lines that know no tokens of their own count those of the prompt where others count bytes.
  const tokensIn = entry.tokensIn ?? (model ? entry.bytesSent : null);
  return [
    tokensIn ? t.activity.tokensIn(formatNumber(tokensIn)) : "",
    entry.tokensOut ? t.activity.tokensOut(formatNumber(entry.tokensOut)) : "",
    !model && entry.bytesSent ? t.activity.sent(formatBytes(entry.bytesSent)) : "",
    entry.bytesReceived ? t.activity.received(formatBytes(entry.bytesReceived)) : "",
    entry.ms === null ? "" : formatTook(entry.ms),
    entry.cost === null ? "" : formatCost(entry.cost),
  ].filter((part) => part !== "");
}

function Row({ entry }: { entry: ActivityEntry }) {
  const names = useNames();
  const bad = entry.kind === "refusal" || entry.kind === "error" || entry.outcome === "failed";
  const model = entry.model || entry.target;
  const target =
    entry.kind === "stop"
      ? `${names.app(entry.app)}: ${entry.target}`
      : entry.kind !== "model"
        ? names.withConnections(entry.target)
        : model.startsWith("demo/")
          ? t.activity.demo
          : names.withConnections(model);
  const sign = Object.hasOwn(SIGNS, entry.kind) ? SIGNS[entry.kind as ActivityKind] : "other";
  // The word of a refusal already says how it ended.
  const end = entry.kind === "refusal" && entry.outcome === "refused" ? "" : outcomeWord(entry.outcome);
  const status = entry.status ? t.activity.status(entry.status) : "";
  return (
    <div className={bad ? "entry bad" : isRunning(entry) ? "entry running" : "entry"}>
      <span className="entry-kind">
        <Icon name={sign} />
        <Foreign text={kindWord(entry.kind)} longest={40} />
      </span>
      <span className="entry-target mono">
        <Foreign text={target} longest={300} />
      </span>
      <span className="entry-when">
        <Ago at={entry.at} />
      </span>
      <span className="entry-end">
        {end || status ? (
          <span className="entry-outcome">
            <Foreign text={[end, status].filter((part) => part !== "").join(", ")} longest={80} />
          </span>
        ) : null}{" "}
        <span className="quiet">{amounts(entry).join(" · ")}</span>
      </span>
      <Cause entry={entry} bad={bad} />
    </div>
  );
}

/** The engine's own sentences begin in lower case, as the command line wants them. A name or code keeps its letters. */
function begun(text: string): string {
  return /^[a-z]+,? /.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text;
}

/** The cause as it is shown: the engine's own in our words, what plugins and servers said as it is. */
function causeOf({ kind, detail }: ActivityEntry): string {
  if (kind === "connection" && Object.hasOwn(t.activity.purposes, detail))
    return t.activity.purposes[detail as keyof typeof t.activity.purposes];
  return kind === "connection" || kind === "refusal" ? begun(detail) : detail;
}

function Cause({ entry, bad }: { entry: ActivityEntry; bad: boolean }) {
  const names = useNames();
  const detail = names.withConnections(causeOf(entry));
  if (detail === "") {
    return entry.kind === "refusal" ? <p className="entry-cause quiet">{t.activity.unexplained}</p> : null;
  }
  if (!bad && detail.length <= SHORT_CAUSE) {
    return (
      <p className="entry-cause quiet">
        <Foreign text={detail} longest={SHORT_CAUSE} />
      </p>
    );
  }
  if (detail.length <= SHORT_CAUSE && !detail.includes("\n")) {
    return (
      <p className="entry-cause">
        <Foreign text={detail} longest={SHORT_CAUSE} />
      </p>
    );
  }
  return (
    <details className="entry-cause">
      <summary>
        <bdi>{oneLine(detail.split("\n", 1)[0] ?? "", 160)}</bdi>
      </summary>
      <ForeignBlock className="raw" text={detail} />
    </details>
  );
}
