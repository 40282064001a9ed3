import { useRef } from "react";
import { type AppPlugins, NO_APP } from "../../api-plugins";
import { t } from "../../i18n";
import { Dialog } from "../../parts/dialog";
import { ErrorNote } from "../../parts/error";
import { oneLine } from "../../parts/text";
import { writeRoute } from "../../route";
import { useLoaded, useReread } from "../../state";
import { inOrder } from "./order";
import { OnePlugin } from "./plugin";
import { Usage } from "./usage";
import "./plugins.css";

interface Props {
  /** The app, or `NO_APP` for plugins that belong to none. */
  id: string;
  name: string;
  /** The global id of the plugin that is looked for: it is in view, with what changed in it open. */
  at?: string | undefined;
  onClose(): void;
  onChanged(): void;
}

/** The plugins of an app: what each may do, what they used, and everything that can be done about it. */
export default function Plugins({ id, name, at, onClose, onChanged }: Props) {
  const loaded = useLoaded<AppPlugins>((a) => a.plugins(id), ["apps_changed"]);
  // The files may have been edited meanwhile.
  useReread(loaded.reload, null);
  const changed = () => {
    loaded.reload();
    onChanged();
  };
  const { value } = loaded;
  // What was decided stays where it was: nothing moves under the pointer while the dialog is open.
  const places = useRef<string[]>([]);
  const plugins = inOrder(value?.plugins ?? []);
  for (const { globalId } of plugins) if (!places.current.includes(globalId)) places.current.push(globalId);
  plugins.sort((a, b) => places.current.indexOf(a.globalId) - places.current.indexOf(b.globalId));
  const none = id === NO_APP;
  return (
    <Dialog title={none ? t.plugins.titleNone : t.plugins.title(oneLine(name, 60))} onClose={onClose} wide>
      <div className="stack">
        <ErrorNote error={loaded.error} retry={loaded.reload} />
        {!value && !loaded.error ? <p role="status">{t.common.loading}</p> : null}
        {value?.plugins.length === 0 ? <p>{none ? t.plugins.noneLeft : t.plugins.none}</p> : null}
        {value?.usage && plugins.length > 0 ? <Usage app={id} usage={value.usage} onChanged={loaded.reload} /> : null}
        {plugins.map((plugin) => (
          <OnePlugin
            key={plugin.globalId}
            app={id}
            plugin={plugin}
            sought={plugin.globalId === at}
            onChanged={changed}
          />
        ))}
        {none ? null : <a href={writeRoute({ screen: "activity", app: id })}>{t.plugins.inActivity}</a>}
      </div>
    </Dialog>
  );
}
