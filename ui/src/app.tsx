import { lazy, Suspense, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { type Api, api, CallError, type Me, type Settings as SettingsValue } from "./api";
import type { Backend, EngineEvent } from "./backend";
import { t } from "./i18n";
import { Boundary, ErrorNote } from "./parts/error";
import { oneLine } from "./parts/text";
import { go, type Route, useRoute, writeRoute } from "./route";
import { Home } from "./screens/home";
import { SignIn } from "./screens/sign-in";
import { type Engine, EngineContext, RECONNECTED, useAct, useEngine } from "./state";
import { showTheme } from "./theme";

// The screens that a start does not need come when they are opened.
const Settings = lazy(() => import("./screens/settings"));
const Activity = lazy(() => import("./screens/activity/screen"));
const Spending = lazy(() => import("./screens/spend/screen"));
const Start = lazy(() => import("./screens/start").then((m) => ({ default: m.Start })));
const AppFrame = lazy(() => import("./screens/app-frame").then((m) => ({ default: m.AppFrame })));

/** Who is there and how they like it: what every screen after the sign-in stands on. */
export interface Session {
  me: Me;
  settings: SettingsValue;
}

export async function loadSession(calls: Api): Promise<Session> {
  const [me, settings] = await Promise.all([calls.me(), calls.settings()]);
  return { me, settings };
}

type State =
  | { at: "loading" }
  | { at: "signed-out" }
  | { at: "failed"; error: unknown }
  | { at: "in"; session: Session };

interface Props {
  backend: Backend;
  setupToken: string | null;
  /** The first load, begun before anything was drawn. */
  first?: Promise<Session>;
}

export function App({ backend, setupToken, first }: Props) {
  const [state, setState] = useState<State>({ at: "loading" });
  const [token, setToken] = useState(setupToken);
  const [connected, setConnected] = useState(true);
  const heard = useRef(new Set<(event: EngineEvent) => void>());
  const signedOut = useCallback(() => {
    if (backend.kind === "web") setState({ at: "signed-out" });
  }, [backend]);
  const engine = useMemo<Engine>(
    () => ({
      backend,
      api: api(backend),
      signedOut,
      listen: (listener) => {
        heard.current.add(listener);
        return () => void heard.current.delete(listener);
      },
    }),
    [backend, signedOut],
  );

  const enter = useCallback(
    (loading: Promise<Session>) => {
      loading.then(
        (session) => {
          showTheme(session.settings.theme);
          setState({ at: "in", session });
        },
        (error: unknown) => {
          const nobody = backend.kind === "web" && error instanceof CallError && error.status === 401;
          setState(nobody ? { at: "signed-out" } : { at: "failed", error });
        },
      );
    },
    [backend],
  );
  useEffect(() => enter(first ?? loadSession(engine.api)), [enter, first, engine]);

  const inside = state.at === "in";
  useEffect(() => {
    if (!inside) return;
    const tell = (event: EngineEvent) => {
      for (const listener of [...heard.current]) listener(event);
    };
    let lost = false;
    return backend.events(tell, (now) => {
      setConnected(now);
      // What changed while nobody listened is loaded again.
      if (now && lost)
        for (const type of ["apps_changed", "connections_changed", RECONNECTED]) tell({ type, payload: {} });
      lost = !now;
    });
  }, [backend, inside]);

  const again = () => {
    setState({ at: "loading" });
    enter(loadSession(engine.api));
  };
  return (
    <EngineContext value={engine}>
      <Boundary>
        {inside && !connected ? (
          <p className="offline" role="status">
            {t.error.offline}
          </p>
        ) : null}
        {state.at === "loading" ? <main className="narrow" id="content" aria-busy="true" /> : null}
        {state.at === "failed" ? (
          <main className="narrow" id="content">
            <ErrorNote error={state.error} retry={again} />
          </main>
        ) : null}
        {state.at === "signed-out" ? (
          <SignIn
            token={token}
            onDone={() => {
              setToken(null);
              again();
            }}
          />
        ) : null}
        {state.at === "in" ? (
          <Inside
            session={state.session}
            onSession={(session) => setState({ at: "in", session })}
            onSignedOut={signedOut}
          />
        ) : null}
      </Boundary>
    </EngineContext>
  );
}

interface InsideProps {
  session: Session;
  onSession(session: Session): void;
  onSignedOut(): void;
}

function Inside({ session, onSession, onSignedOut }: InsideProps) {
  const { api: calls, backend } = useEngine();
  const route = useRoute();
  const { me, settings } = session;
  const set = (next: SettingsValue) => onSession({ ...session, settings: next });

  // The bench and the tests wait for this: what is shown now can be used.
  useEffect(() => {
    document.documentElement.dataset.ready = "";
    performance.mark("chrysalis-ready");
  }, []);

  if (!settings.onboarded) {
    const done = async (open: string | null) => {
      const [next, who] = await Promise.all([calls.change({ onboarded: true }), calls.me()]);
      if (open !== null) await backend.openApp(open);
      else go({ screen: "home" });
      onSession({ me: who, settings: next });
    };
    return (
      <Suspense fallback={<main className="narrow" id="content" aria-busy="true" />}>
        <Start me={me} onDone={done} />
      </Suspense>
    );
  }
  const full = route.screen === "app" && backend.kind === "web";
  return (
    <>
      {full ? null : <Header route={route} me={me} onSignedOut={onSignedOut} />}
      <Boundary key={writeRoute(route)}>
        <Suspense fallback={<main id="content" aria-busy="true" />}>
          {route.screen === "settings" ? (
            <Settings
              page={route.page}
              settings={settings}
              me={me}
              onSettings={set}
              onMe={(who) => onSession({ ...session, me: who })}
            />
          ) : route.screen === "activity" ? (
            <Activity app={route.app ?? ""} />
          ) : route.screen === "spend" ? (
            <Spending />
          ) : full && route.screen === "app" ? (
            <AppFrame key={route.id} id={route.id} />
          ) : (
            <Home settings={settings} />
          )}
        </Suspense>
      </Boundary>
    </>
  );
}

function Header({ route, me, onSignedOut }: { route: Route; me: Me; onSignedOut(): void }) {
  const { api: calls, backend } = useEngine();
  const act = useAct();
  const links: [string, Route][] = [
    [t.nav.apps, { screen: "home" }],
    [t.nav.activity, { screen: "activity" }],
    [t.nav.settings, { screen: "settings", page: "models" }],
  ];
  return (
    <header className="top">
      <button type="button" className="skip" onClick={skip}>
        {t.common.skipToContent}
      </button>
      <span className="brand">{t.product}</span>
      <nav aria-label={t.nav.label}>
        {links.map(([label, to]) => (
          <a key={label} href={writeRoute(to)} aria-current={within(route) === to.screen ? "page" : undefined}>
            {label}
          </a>
        ))}
      </nav>
      <span className="who quiet">
        <bdi>{oneLine(me.username, 40)}</bdi>
      </span>
      {backend.kind === "web" ? (
        <button
          type="button"
          className="small"
          disabled={act.busy}
          onClick={() => void act.run(() => calls.logout().then(onSignedOut))}
        >
          {t.nav.signOut}
        </button>
      ) : null}
      <ErrorNote error={act.error} />
    </header>
  );
}

/** The part of the launcher that a screen belongs to. */
const within = (route: Route): Route["screen"] => (route.screen === "spend" ? "activity" : route.screen);

function skip() {
  const content = document.getElementById("content");
  if (!content) return;
  content.tabIndex = -1;
  content.focus();
}
