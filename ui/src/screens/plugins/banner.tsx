import type { AppCard } from "../../api";
import { type AppPlugins, type Plugin, waitsForAnswer } from "../../api-plugins";
import { t } from "../../i18n";
import { useArmed } from "../../parts/armed";
import { Icon } from "../../parts/icon";
import { Foreign, oneLine } from "../../parts/text";
import { useLoaded } from "../../state";
import { inOrder } from "./order";

interface Props {
  app: AppCard;
  /** Says whose plugin it is, where that is not plain from around it. */
  named?: boolean;
  onLook(plugin: string): void;
}

/** Says of an app in use which of its plugins wait for an answer, and leads to it. Nothing where none does. */
export function WaitingBanner({ app, named, onLook }: Props) {
  if (app.waiting === 0) return null;
  // By how many wait: another number is another state of its files.
  return <Waiting key={app.waiting} app={app} named={named === true} onLook={onLook} />;
}

function Waiting({ app, named, onLook }: Props) {
  const loaded = useLoaded<AppPlugins>((a) => a.plugins(app.id), ["apps_changed"]);
  const waiting = (loaded.value?.plugins ?? []).filter((plugin) => plugin.permissions.some(waitsForAnswer));
  return inOrder(waiting).map((plugin) => (
    <One key={plugin.globalId} plugin={plugin} app={named ? app.name : ""} onLook={() => onLook(plugin.globalId)} />
  ));
}

function One({ plugin, app, onLook }: { plugin: Plugin; app: string; onLook(): void }) {
  const armed = useArmed();
  const name = oneLine(plugin.name, 60);
  const look = plugin.changed ? t.plugins.banner.look : t.plugins.banner.lookAsks;
  return (
    <div className="note warn row wrap" role="status">
      <p className="grow with-sign">
        <Icon name={plugin.changed ? "changed" : "asked"} />
        <span>
          {app === "" ? null : (
            <>
              <span className="strong">
                <Foreign text={app} longest={60} />
              </span>
              {": "}
            </>
          )}
          <bdi>{plugin.changed ? t.plugins.banner.changed(name) : t.plugins.banner.asks(name)}</bdi>
        </span>
      </p>
      <button
        type="button"
        className="small"
        aria-label={t.plugins.banner.lookOf(look, name)}
        disabled={!armed}
        onClick={onLook}
      >
        {look}
      </button>
    </div>
  );
}
