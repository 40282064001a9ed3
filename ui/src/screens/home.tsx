import { lazy, Suspense, useEffect, useMemo, useRef, useState } from "react";
import type { AppCard, Launch, Settings } from "../api";
import { type AppPlugins, NO_APP, type Permission } from "../api-plugins";
import { formatBinary, t } from "../i18n";
import { Dialog } from "../parts/dialog";
import { CopyButton, ErrorNote } from "../parts/error";
import { Review } from "../parts/review";
import { Foreign, ForeignBlock, oneLine } from "../parts/text";
import { Tile } from "../parts/tile";
import { byRecent, noteOpened, recentApps } from "../recent";
import { go } from "../route";
import { useAct, useEngine, useLoaded, useReread, WAITING_MS } from "../state";
import { WaitingBanner } from "./plugins/banner";

// A start does not need it.
const Plugins = lazy(() => import("./plugins/dialog"));

type Open =
  | { what: "plugins"; id: string; name: string; at?: string }
  | { what: "remove" | "review"; id: string; name: string };

/** The grid of apps. */
export function Home({ settings }: { settings: Settings }) {
  const { backend } = useEngine();
  const launch = useLoaded<Launch>((a) => a.launch(), ["apps_changed", "connections_changed"]);
  const [query, setQuery] = useState("");
  const [open, setOpen] = useState<Open | null>(null);
  const [recent, setRecent] = useState(recentApps);
  // Apps that got a window of their own from here: it may still be open, and this is where it is answered for.
  const [used, setUsed] = useState<readonly string[]>([]);
  const search = useRef<HTMLInputElement>(null);
  const act = useAct();

  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const typing = event.target instanceof HTMLElement && event.target.matches("input, textarea, select");
      const slash = event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey;
      const ctrlK = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey;
      if ((!slash && !ctrlK) || document.querySelector("dialog[open]")) return;
      event.preventDefault();
      search.current?.focus();
      search.current?.select();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);

  const apps = launch.value?.apps;
  const matters = used.length > 0 || apps?.some((app) => app.waiting > 0);
  useReread(launch.reload, matters ? WAITING_MS : null);
  const shown = useMemo(() => {
    const words = query.toLocaleLowerCase().split(/\s+/).filter(Boolean);
    const fits = (app: AppCard) => {
      const text = `${app.name} ${app.author} ${app.description} ${app.id}`.toLocaleLowerCase();
      return words.every((word) => text.includes(word));
    };
    return byRecent((apps ?? []).filter(fits), recent);
  }, [apps, query, recent]);

  const openApp = (id: string) =>
    void act.run(async () => {
      await backend.openApp(id);
      noteOpened(id);
      setUsed((ids) => (ids.includes(id) ? ids : [...ids, id]));
      launch.reload();
      setRecent(recentApps());
    });

  if (!launch.value) {
    return (
      <main id="content">
        {launch.error ? (
          <ErrorNote error={launch.error} retry={launch.reload} />
        ) : (
          <p className="quiet" role="status">
            {t.common.loading}
          </p>
        )}
      </main>
    );
  }
  const { broken, box } = launch.value;
  const offered = box.filter((app) => !app.added);
  const none = launch.value.apps.length === 0;
  return (
    <main id="content" className="stack loose">
      <div className="row wrap head">
        <h1 className="grow">{t.home.title}</h1>
        {none ? null : (
          <input
            ref={search}
            type="search"
            className="search"
            aria-label={t.home.search}
            placeholder={t.home.searchHint}
            value={query}
            onChange={(event) => setQuery(event.target.value)}
            onKeyDown={(event) => {
              const first = shown[0];
              if (event.key === "Enter" && query !== "" && first) openApp(first.id);
              if (event.key === "Escape") setQuery("");
            }}
          />
        )}
      </div>
      {settings.model === null ? (
        <p className="note row wrap">
          <span className="grow">{t.home.noModel}</span>
          <button type="button" className="small" onClick={() => go({ screen: "settings", page: "models" })}>
            {t.home.chooseModel}
          </button>
        </p>
      ) : settings.model.startsWith("demo/") ? (
        <p className="note row wrap">
          <span className="grow">{t.home.demoNote}</span>
          <button type="button" className="small" onClick={() => go({ screen: "settings", page: "models" })}>
            {t.home.chooseModel}
          </button>
        </p>
      ) : null}
      {launch.value.apps
        .filter((app) => used.includes(app.id))
        .map((app) => (
          <WaitingBanner
            key={app.id}
            app={app}
            named
            onLook={(at) => setOpen({ what: "plugins", id: app.id, name: app.name, at })}
          />
        ))}
      <ErrorNote error={launch.error} retry={launch.reload} />
      <ErrorNote error={act.error} />
      {none ? (
        <div className="note">
          <p className="strong">{t.home.none}</p>
          <p>{offered.length > 0 ? t.home.noneTodo : t.home.noneLeft}</p>
        </div>
      ) : shown.length === 0 ? (
        <p className="row wrap" role="status">
          <span>{t.home.noMatch(query)}</span>
          <button type="button" className="small" onClick={() => setQuery("")}>
            {t.home.clear}
          </button>
        </p>
      ) : (
        <ul className="grid">
          {shown.map((app) => (
            <Card
              key={app.id}
              app={app}
              onOpen={() => openApp(app.id)}
              onPlugins={() => setOpen({ what: "plugins", id: app.id, name: app.name })}
              onRemove={() => setOpen({ what: "remove", id: app.id, name: app.name })}
            />
          ))}
        </ul>
      )}
      {broken.length > 0 ? (
        <section className="stack tight" aria-labelledby="broken">
          <h2 id="broken">{t.home.broken}</h2>
          <p className="quiet">{t.home.brokenHint}</p>
          {broken.map((app) => (
            <div key={app.id} className="line bad">
              <div className="grow">
                <p className="strong">
                  <Foreign text={app.id} longest={80} />
                </p>
                <ForeignBlock className="pre" text={app.error} />
              </div>
              <CopyButton text={app.error} />
              <button
                type="button"
                className="small"
                aria-label={t.home.removeOf(oneLine(app.id, 60))}
                onClick={() => setOpen({ what: "remove", id: app.id, name: app.id })}
              >
                {t.home.remove}
              </button>
            </div>
          ))}
        </section>
      ) : null}
      <Loose onOpen={() => setOpen({ what: "plugins", id: NO_APP, name: "" })} />
      {offered.length > 0 ? (
        <section className="stack tight" aria-labelledby="box">
          <h2 id="box">{t.home.box}</h2>
          {offered.map((app) => (
            <div key={app.id} className="line">
              <Tile id={app.id} name={app.name} />
              <div className="grow">
                <p className="strong">
                  <Foreign text={app.name} longest={80} />
                </p>
                <p className="quiet">
                  <Foreign text={app.description} longest={200} />
                </p>
              </div>
              <button type="button" onClick={() => setOpen({ what: "review", id: app.id, name: app.name })}>
                {t.home.add(oneLine(app.name, 40))}
              </button>
            </div>
          ))}
        </section>
      ) : null}
      {open?.what === "plugins" ? (
        <Suspense>
          <Plugins id={open.id} name={open.name} at={open.at} onClose={() => setOpen(null)} onChanged={launch.reload} />
        </Suspense>
      ) : null}
      {open?.what === "remove" ? (
        <Remove id={open.id} name={open.name} onClose={() => setOpen(null)} onRemoved={launch.reload} />
      ) : null}
      {open?.what === "review" ? (
        <Dialog title={t.review.add(oneLine(open.name, 60))} onClose={() => setOpen(null)} wide>
          <Review
            box={open.id}
            onCancel={() => setOpen(null)}
            onAdded={() => {
              setOpen(null);
              launch.reload();
            }}
          />
        </Dialog>
      ) : null}
    </main>
  );
}

/** Plugins that belong to no app have no card to be found on. */
function Loose({ onOpen }: { onOpen(): void }) {
  const loaded = useLoaded<AppPlugins>(
    // An engine that knows of no such plugins has none.
    (a) => a.plugins(NO_APP).catch(() => ({ plugins: [], usage: null })),
    ["apps_changed"],
  );
  const n = loaded.value?.plugins.length ?? 0;
  if (n === 0) return null;
  return (
    <p className="note row wrap">
      <span className="grow">{t.home.looseNote(n)}</span>
      <button type="button" className="small" onClick={onOpen}>
        {t.home.loose}
      </button>
    </p>
  );
}

interface CardProps {
  app: AppCard;
  onOpen(): void;
  onPlugins(): void;
  onRemove(): void;
}

function Card({ app, onOpen, onPlugins, onRemove }: CardProps) {
  const name = oneLine(app.name, 60) || t.common.unnamed;
  const source = app.official
    ? t.home.official
    : app.repository
      ? t.home.fromRepository(oneLine(app.repository, 80))
      : t.home.local;
  return (
    <li className="card">
      <button type="button" className="card-open" onClick={onOpen} aria-label={t.home.open(name)}>
        <Tile id={app.id} name={app.name} />
        <span className="card-text">
          <span className="card-name">
            <bdi>{name}</bdi>
          </span>
          <span className="quiet card-source">
            {app.author ? (
              <>
                <bdi>{t.home.by(oneLine(app.author, 60))}</bdi> ·{" "}
              </>
            ) : null}
            <bdi>{source}</bdi>
          </span>
        </span>
      </button>
      <p className="card-description">
        <bdi>{oneLine(app.description, 240)}</bdi>
      </p>
      {/* By what waits and runs: files that changed on disk are not told of. */}
      <Reach key={`${app.waiting} ${app.plugins}`} app={app} />
      <div className="card-foot">
        <button
          type="button"
          className="small"
          aria-label={app.waiting > 0 ? `${t.home.waiting(app.waiting)}: ${name}` : t.home.pluginsOf(name)}
          onClick={onPlugins}
        >
          {app.waiting > 0 ? <span className="dot" aria-hidden="true" /> : null}
          {app.waiting > 0 ? t.home.waiting(app.waiting) : t.home.plugins}
        </button>
        <button type="button" className="small" aria-label={t.home.removeOf(name)} onClick={onRemove}>
          {t.home.remove}
        </button>
      </div>
    </li>
  );
}

/** What the app may reach: the sentences of what was allowed. Its line keeps its place while they load. */
function Reach({ app }: { app: AppCard }) {
  const loaded = useLoaded<AppPlugins>(
    (a) => (app.plugins > 0 ? a.plugins(app.id) : Promise.resolve({ plugins: [], usage: null })),
    ["apps_changed"],
  );
  if (!loaded.value) return <p className="card-reach quiet">&nbsp;</p>;
  const running = loaded.value.plugins.filter((p) => p.enabled);
  const granted = running.flatMap((p) => p.permissions.filter((asked) => asked.state === "granted" && !asked.policy));
  // Where it reaches stands before what it does here.
  granted.sort((a, b) => Number(b.hosts.length > 0) - Number(a.hosts.length > 0));
  const said = ({ sentence, hosts, quota }: Permission) => {
    const within = quota === null ? hosts : [...hosts, t.plugins.upTo(formatBinary(quota))];
    return within.length > 0 ? `${sentence}: ${within.join(", ")}` : sentence;
  };
  const sentences = [...new Set(granted.map(said))];
  if (sentences.length === 0) return <p className="card-reach quiet">{t.home.reachesNothing}</p>;
  const [first, ...others] = sentences;
  return (
    <p className="card-reach quiet" title={sentences.map((s) => oneLine(s, 120)).join("\n")}>
      <Foreign text={first ?? ""} longest={120} /> {others.length > 0 ? t.home.more(others.length) : null}
    </p>
  );
}

function Remove({ id, name, onClose, onRemoved }: { id: string; name: string; onClose(): void; onRemoved(): void }) {
  const { api } = useEngine();
  const act = useAct();
  const shown = oneLine(name, 60);
  const remove = () =>
    void act.run(async () => {
      await api.removeApp(id);
      onClose();
      onRemoved();
    });
  return (
    <Dialog
      title={t.remove.title(shown)}
      onClose={onClose}
      actions={
        <>
          <button type="button" onClick={onClose}>
            {t.common.cancel}
          </button>
          <button type="button" className="danger" disabled={act.busy} onClick={remove}>
            {t.remove.button(shown)}
          </button>
        </>
      }
    >
      <p>{t.remove.body}</p>
      <ErrorNote error={act.error} />
    </Dialog>
  );
}
