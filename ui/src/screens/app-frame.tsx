import { lazy, Suspense, useCallback, useEffect, useRef, useState } from "react";
import { FrameError, leavesPreconnectsOpen, openFrame } from "../frames";
import type { DownloadAsk, LinkAsk } from "../frames/host";
import { formatBytes, t } from "../i18n";
import { useArmed } from "../parts/armed";
import { Dialog } from "../parts/dialog";
import { ErrorNote } from "../parts/error";
import { Foreign, oneLine } from "../parts/text";
import { noteOpened } from "../recent";
import { go } from "../route";
import { RECONNECTED, useEngine, useLoaded, useReread, WAITING_MS } from "../state";
import { WaitingBanner } from "./plugins/banner";

// Most pages never ask for it.
const Plugins = lazy(() => import("./plugins/dialog"));

const NOTED = "chrysalis.browser-noted";
/** Files and addresses that may be refused in a row before the person is not asked any more. Each question is modal. */
const MOST_REFUSED = 3;
/** Times a page may pull the focus out of a question. Behind a modal question only its script can, never the person. */
const MOST_STOLEN = 5;

function noted(): boolean {
  try {
    return localStorage.getItem(NOTED) === "1";
  } catch {
    return false;
  }
}

/** An app's page in the browser, with the questions that its page cannot click. */
export function AppFrame({ id }: { id: string }) {
  const mount = useRef<HTMLDivElement>(null);
  const launch = useLoaded((a) => a.launch(), ["apps_changed"]);
  const [error, setError] = useState<unknown>(null);
  const [stopped, setStopped] = useState<"flood" | "focus" | null>(null);
  const [ended, setEnded] = useState(false);
  const { listen } = useEngine();
  const [turn, setTurn] = useState(0);
  const [download, setDownload] = useState<DownloadAsk | null>(null);
  const [link, setLink] = useState<LinkAsk | null>(null);
  const [muted, setMuted] = useState(false);
  const [showNote, setShowNote] = useState(() => !noted() && leavesPreconnectsOpen());
  const card = launch.value?.apps.find((app) => app.id === id);
  const name = oneLine(card?.name ?? id, 60);
  const title = useRef(name);
  title.current = name;
  const refused = useRef(0);
  const stop = useRef(() => {});
  // Null: not shown. The plugin that is looked for, if any.
  const [plugins, setPlugins] = useState<{ at?: string } | null>(null);
  const [answered, setAnswered] = useState(false);
  const asking = download !== null || link !== null || plugins !== null;
  const { reload } = launch;
  useReread(reload, WAITING_MS);
  const decided = useCallback(() => {
    setAnswered(true);
    reload();
  }, [reload]);

  // What the person types is for the question. A page that keeps taking it away is stopped.
  useEffect(() => {
    if (!asking) return;
    let stolen = 0;
    const back = () => {
      if (!(document.activeElement instanceof HTMLIFrameElement)) return;
      stolen += 1;
      if (stolen > MOST_STOLEN) return stop.current();
      // Not in the middle of the change that is being told.
      setTimeout(() => document.querySelector<HTMLElement>("dialog[open] button")?.focus());
    };
    addEventListener("blur", back);
    return () => removeEventListener("blur", back);
  }, [asking]);

  useEffect(() => {
    const place = mount.current;
    if (!place) return;
    let gone = false;
    let close = () => {};
    let deaf = () => {};
    refused.current = 0;
    setError(null);
    setStopped(null);
    setEnded(false);
    setMuted(false);
    setAnswered(false);
    noteOpened(id);
    const end = (why: "flood" | "focus") => {
      setDownload(null);
      setLink(null);
      setPlugins(null);
      setStopped(why);
    };
    openFrame({
      app: id,
      title: t.frame.title(title.current),
      mount: place,
      onDownload: (ask) => {
        if (refused.current >= MOST_REFUSED) {
          setMuted(true);
          ask.refuse();
        } else setDownload(ask);
      },
      onLink: (ask) => {
        if (refused.current >= MOST_REFUSED) {
          setMuted(true);
          ask.done();
        } else setLink(ask);
      },
      onReady: () => place.querySelector("iframe")?.focus(),
      onStop: end,
    }).then(
      (frame) => {
        close = () => void frame.close();
        stop.current = () => {
          close();
          end("focus");
        };
        if (gone) return close();
        // The page stays as it is: something may stand in it that was not sent yet.
        deaf = listen((event) => {
          if (event.type !== RECONNECTED) return;
          frame.alive().then(
            (alive) => {
              if (!gone && !alive) setEnded(true);
            },
            () => {},
          );
        });
      },
      (failed: unknown) => {
        if (!gone) setError(failed);
      },
    );
    return () => {
      gone = true;
      deaf();
      close();
      setDownload(null);
      setLink(null);
    };
  }, [id, turn, listen]);

  const again = () => setTurn((n) => n + 1);
  const dismiss = () => {
    setShowNote(false);
    try {
      localStorage.setItem(NOTED, "1");
    } catch {
      // It is shown again, then.
    }
  };
  return (
    <main id="content" className="frame-view">
      <div className="frame-bar">
        <button type="button" className="small" onClick={() => go({ screen: "home" })}>
          ← {t.common.back}
        </button>
        <h1>
          <bdi>{name}</bdi>
        </h1>
        <span className="grow" />
        {card && card.plugins > 0 ? (
          <button type="button" className="small" aria-label={t.home.pluginsOf(name)} onClick={() => setPlugins({})}>
            {t.home.plugins}
          </button>
        ) : null}
      </div>
      {card ? <WaitingBanner app={card} onLook={(at) => setPlugins({ at })} /> : null}
      {answered && card?.waiting === 0 && plugins === null ? (
        <div className="note good row wrap" role="status">
          <p className="grow">{t.plugins.banner.answered}</p>
          <button type="button" className="small" onClick={again}>
            {t.frame.reload}
          </button>
        </div>
      ) : null}
      {showNote ? (
        <div className="note warn row wrap">
          <p className="grow">{t.frame.browserNote}</p>
          <button type="button" className="small" onClick={dismiss}>
            {t.frame.gotIt}
          </button>
        </div>
      ) : null}
      {muted ? (
        <p className="note warn" role="status">
          {t.download.mute}
        </p>
      ) : null}
      {error ? (
        <ErrorNote
          error={error}
          {...(error instanceof FrameError && error.message ? {} : { what: t.frame.failed })}
          retry={again}
        />
      ) : null}
      {stopped ? (
        <div className="note bad" role="alert">
          <p className="strong">{stopped === "focus" ? t.frame.stole : t.frame.flood}</p>
          <p>{t.frame.floodKept}</p>
          <button type="button" className="small" onClick={again}>
            {t.frame.reload}
          </button>
        </div>
      ) : null}
      {ended && !stopped ? (
        <div className="note warn row wrap" role="alert">
          <p className="grow">{t.frame.ended}</p>
          <button type="button" className="small" onClick={again}>
            {t.frame.reload}
          </button>
        </div>
      ) : null}
      <div ref={mount} className="frame-mount" />
      {plugins && !download && !link ? (
        <Suspense>
          <Plugins id={id} name={name} at={plugins.at} onClose={() => setPlugins(null)} onChanged={decided} />
        </Suspense>
      ) : null}
      {download ? (
        <SaveDialog
          ask={download}
          app={name}
          onAnswer={(saved) => {
            refused.current = saved ? 0 : refused.current + 1;
            setDownload(null);
          }}
        />
      ) : null}
      {link && !download ? (
        <LinkDialog
          ask={link}
          app={name}
          onAnswer={(opened) => {
            refused.current = opened ? 0 : refused.current + 1;
            setLink(null);
          }}
        />
      ) : null}
    </main>
  );
}

function SaveDialog({ ask, app, onAnswer }: { ask: DownloadAsk; app: string; onAnswer(saved: boolean): void }) {
  const armed = useArmed();
  const refuse = () => {
    ask.refuse();
    onAnswer(false);
  };
  const save = (event: React.MouseEvent) => {
    if (!armed || !event.nativeEvent.isTrusted) return;
    const address = URL.createObjectURL(ask.blob);
    const anchor = document.createElement("a");
    anchor.href = address;
    anchor.download = ask.name;
    anchor.click();
    // The browser reads the blob after the click; it needs the address for a while.
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
    ask.accept();
    onAnswer(true);
  };
  return (
    <Dialog
      title={t.download.title}
      onClose={refuse}
      actions={
        <>
          <button type="button" onClick={refuse}>
            {t.download.refuse}
          </button>
          <button type="button" className="primary" disabled={!armed} onClick={save}>
            {t.download.save}
          </button>
        </>
      }
    >
      <p>
        <bdi>{t.download.body(app)}</bdi>
      </p>
      <p className="strong mono">
        <Foreign text={ask.name} />
      </p>
      <p className="quiet">{formatBytes(ask.bytes)}</p>
    </Dialog>
  );
}

function LinkDialog({ ask, app, onAnswer }: { ask: LinkAsk; app: string; onAnswer(opened: boolean): void }) {
  const armed = useArmed();
  const close = (opened = false) => {
    ask.done();
    onAnswer(opened);
  };
  const open = (event: React.MouseEvent) => {
    if (!armed || !event.nativeEvent.isTrusted) return;
    window.open(ask.url.href, "_blank", "noopener,noreferrer");
    close(true);
  };
  return (
    <Dialog
      title={t.link.title(ask.url.host)}
      onClose={() => close()}
      actions={
        <>
          <button type="button" onClick={() => close()}>
            {t.link.refuse}
          </button>
          <button type="button" className="primary" disabled={!armed} onClick={open}>
            {t.link.open}
          </button>
        </>
      }
    >
      <p>
        <bdi>{t.link.body(app)}</bdi>
      </p>
      <p className="mono pre">{oneLine(ask.url.href, 2048)}</p>
    </Dialog>
  );
}
