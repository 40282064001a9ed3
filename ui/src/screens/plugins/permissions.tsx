import { useRef, useState } from "react";
import { CallError } from "../../api";
import { type Permission, type Plugin, waitsForAnswer as waits } from "../../api-plugins";
import { formatNumber, t } from "../../i18n";
import { useArmed } from "../../parts/armed";
import { Ask } from "../../parts/ask";
import { ErrorNote } from "../../parts/error";
import { Icon, type IconName } from "../../parts/icon";
import { Foreign, oneLine } from "../../parts/text";
import { useAct, useEngine } from "../../state";

const SIGNS: Record<Permission["state"], IconName> = {
  granted: "allowed",
  asked: "asked",
  denied: "refused",
  stale: "changed",
};

function State({ asked }: { asked: Permission }) {
  if (asked.policy !== "") {
    return (
      <div className="state forbidden">
        <p>
          <Icon name="locked" />
          {t.plugins.forbidden}
        </p>
        <p>
          <Foreign text={asked.policy} longest={600} />
        </p>
      </div>
    );
  }
  return (
    <p className={`state ${asked.state}`}>
      <Icon name={SIGNS[asked.state]} />
      {t.plugins.state[asked.state]}
    </p>
  );
}

interface Props {
  plugin: Plugin;
  onChanged(): void;
}

/**
 * What one plugin asks for. While something waits for an answer, everything that is open has a tick, set for what is
 * asked for and not for what was refused before, and one button answers all of it. After that each can be taken back,
 * or allowed after all, by itself.
 */
export function Permissions({ plugin, onChanged }: Props) {
  const { api } = useEngine();
  const act = useAct();
  const armed = useArmed();
  const [raced, setRaced] = useState(false);
  const list = useRef<HTMLUListElement>(null);
  // By the files that were shown: a tick for other files is no tick for these.
  const [chosen, setChosen] = useState<{ hash: string; ticks: Record<string, boolean> }>({ hash: "", ticks: {} });
  const ticks = chosen.hash === plugin.hash ? chosen.ticks : {};

  const waiting = plugin.permissions.filter(waits);
  const deciding = waiting.length > 0;
  const granted = plugin.permissions.filter((asked) => asked.state === "granted" && asked.policy === "");
  const open = (asked: Permission) => asked.policy === "" && asked.state !== "granted";
  const ticked = (asked: Permission) =>
    open(asked) && (Object.hasOwn(ticks, asked.capability) ? ticks[asked.capability] === true : waits(asked));
  const wanted = plugin.permissions.filter(ticked);
  // What waits stands on top: it is what there is to decide.
  const ordered = [...waiting, ...plugin.permissions.filter((asked) => !waits(asked))];

  const approve = (allowed: Permission[]) =>
    void act.run(async () => {
      setRaced(false);
      const names = new Set([...granted, ...allowed].map((asked) => asked.capability));
      try {
        await api.approve(plugin.globalId, plugin.hash, [...names]);
      } catch (error) {
        if (!(error instanceof CallError && error.status === 409)) throw error;
        setRaced(true);
      }
      onChanged();
      // The button that was pressed goes away with what it answered.
      list.current?.focus();
    });
  const revoke = (asked: Permission) =>
    void act.run(async () => {
      setRaced(false);
      await api.revoke(plugin.globalId, asked.capability);
      onChanged();
    });

  if (plugin.permissions.length === 0) return plugin.error ? null : <p>{t.plugins.asksNothing}</p>;
  return (
    <div className="stack tight">
      {raced ? (
        <p className="note warn" role="alert">
          {t.plugins.raced}
        </p>
      ) : null}
      <ul className="asks" ref={list} tabIndex={-1} aria-label={t.plugins.asks(oneLine(plugin.name, 60))}>
        {ordered.map((asked) => {
          const sentence = oneLine(asked.sentence, 120);
          return (
            <li key={asked.capability} className={asked.policy ? "forbidden" : asked.state}>
              <div className="ask">
                {deciding && open(asked) ? (
                  <input
                    type="checkbox"
                    aria-label={t.plugins.choose(sentence)}
                    checked={ticked(asked)}
                    disabled={act.busy}
                    onChange={(event) =>
                      setChosen({
                        hash: plugin.hash,
                        ticks: { ...ticks, [asked.capability]: event.target.checked },
                      })
                    }
                  />
                ) : null}
                <div className="grow">
                  <Ask asked={asked} />
                  <State asked={asked} />
                </div>
                {asked.policy !== "" ? null : asked.state === "granted" ? (
                  <button
                    type="button"
                    className="small"
                    aria-label={t.plugins.revokeOne(sentence)}
                    disabled={act.busy}
                    onClick={() => revoke(asked)}
                  >
                    {t.plugins.revoke}
                  </button>
                ) : !deciding ? (
                  <button
                    type="button"
                    className="small"
                    aria-label={t.plugins.allowOne(sentence)}
                    disabled={act.busy}
                    onClick={() => approve([asked])}
                  >
                    {t.plugins.allow}
                  </button>
                ) : null}
              </div>
            </li>
          );
        })}
      </ul>
      <ErrorNote error={act.error} />
      {deciding ? (
        <>
          <div className="row wrap">
            <button type="button" className="primary" disabled={act.busy || !armed} onClick={() => approve(wanted)}>
              {t.plugins.approve(wanted.length)}
            </button>
            {wanted.length > 0 ? (
              <button type="button" disabled={act.busy} onClick={() => approve([])}>
                {t.plugins.refuseAll}
              </button>
            ) : null}
          </div>
          <p className="quiet">{t.plugins.leftOut}</p>
        </>
      ) : null}
      <details>
        <summary>{t.plugins.exact}</summary>
        <dl className="facts">
          <dt>{t.plugins.hash}</dt>
          <dd className="mono">{oneLine(plugin.hash, 128)}</dd>
          <dt>{t.plugins.capability}</dt>
          {plugin.permissions.map((asked) => (
            <dd key={asked.capability} className="mono">
              <Foreign text={asked.capability} longest={400} />
              {asked.hosts.length > 0 ? (
                <>
                  : <Foreign text={asked.hosts.join(", ")} longest={2000} />
                </>
              ) : null}
              {asked.quota === null ? null : `: ${formatNumber(asked.quota)} ${t.plugins.bytes}`}
            </dd>
          ))}
        </dl>
      </details>
    </div>
  );
}
