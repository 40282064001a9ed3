import type { Permission } from "../api-plugins";
import { formatBinary, t } from "../i18n";
import { Icon } from "./icon";
import { Foreign } from "./text";

/** One thing that a plugin asks for: the sentence, where it reaches, and why in the author's words. */
export function Ask({ asked }: { asked: Permission }) {
  const hosts = asked.hosts.map((host) => (
    <span key={host} className="host">
      <Foreign text={host} longest={255} />
    </span>
  ));
  return (
    <>
      <p className="ask-sentence">
        <Foreign text={asked.sentence} />
      </p>
      {asked.quota === null ? null : <p className="ask-size">{t.plugins.upTo(formatBinary(asked.quota))}</p>}
      {asked.local ? (
        <p className="ask-local">
          <Icon name="here" />
          <span className="ask-hosts">
            <span>{hosts.length > 0 ? t.plugins.local : t.plugins.localAny}</span> {hosts}
          </span>
        </p>
      ) : hosts.length > 0 ? (
        <p className="ask-hosts">
          <span className="quiet">{t.plugins.hosts}</span> {hosts}
        </p>
      ) : null}
      {asked.reason ? (
        <div className="ask-reason">
          <span className="quiet">{t.plugins.reason}</span>{" "}
          <q>
            <Foreign text={asked.reason} longest={400} />
          </q>
        </div>
      ) : null}
    </>
  );
}
