import type { ErrorInfo } from "../../api";
import { formatNumber, formatTook, t } from "../../i18n";
import { CopyButton } from "../../parts/error";
import { Foreign, ForeignBlock } from "../../parts/text";
import { writeRoute } from "../../route";

interface Props {
  /** In the engine's words, with those of the server. */
  error: string;
  info: ErrorInfo | null;
  url?: string;
  onKey?: () => void;
}

/** What went wrong with a model and what to do about it; the server's own words are one click away. */
export function Failure({ error, info, url, onKey }: Props) {
  const kind = info?.kind ?? "";
  const known = Object.hasOwn(t.failure.kinds, kind) ? t.failure.kinds[kind] : undefined;
  const raw = [error, url ? `${t.connect.askedAt} ${url}` : "", info?.status ? t.activity.status(info.status) : ""];
  const whole = raw.filter(Boolean).join("\n");
  return (
    <div className="note bad" role="alert">
      <p className="strong">{known ? known[0] : <ForeignBlock text={error || t.error.crashed} />}</p>
      {info && (info.model || info.provider) ? (
        <p className="quiet">
          {info.model && info.provider ? (
            <>
              <Foreign text={info.model} longest={120} /> · <Foreign text={info.provider} longest={80} />
            </>
          ) : (
            <Foreign text={info.model || info.provider} longest={120} />
          )}
        </p>
      ) : null}
      {known ? (
        <p>
          {known[1]}
          {info?.retryAfterMs ? ` ${t.failure.when(formatTook(info.retryAfterMs))}` : null}
          {info?.window ? ` ${t.failure.window(formatNumber(info.window))}` : null}
        </p>
      ) : null}
      <div className="row wrap">
        {kind === "key" && onKey ? (
          <button type="button" className="small" onClick={onKey}>
            {t.failure.enterKey}
          </button>
        ) : null}
        {kind === "limit" ? <a href={writeRoute({ screen: "spend" })}>{t.failure.toLimits}</a> : null}
        <CopyButton text={whole} />
      </div>
      <details>
        <summary>{t.common.details}</summary>
        <ForeignBlock className="raw" text={whole} />
      </details>
    </div>
  );
}
