import { createContext, useCallback, useContext, useEffect, useRef, useState } from "react";
import { type Api, CallError } from "./api";
import type { Backend, EngineEvent } from "./backend";

export interface Engine {
  backend: Backend;
  api: Api;
  /** Hears the engine's events. Returns the function that ends it. */
  listen(heard: (event: EngineEvent) => void): () => void;
  /** Called when the engine says that nobody is signed in any more. */
  signedOut(): void;
}

/** Told like an event when the engine can be reached again. It may be another run of it. */
export const RECONNECTED = "reconnected";

export const EngineContext = createContext<Engine | null>(null);

export function useEngine(): Engine {
  const engine = useContext(EngineContext);
  if (!engine) throw new Error("used outside of the launcher");
  return engine;
}

export interface Loaded<T> {
  value: T | null;
  error: unknown;
  loading: boolean;
  reload(): void;
  set(value: T): void;
}

/**
 * Loads with `load` when shown, again on `reload` and on the engine's events named in `on`. What was loaded stays shown
 * while it loads again. `load` is taken once; give the component a key to load something else.
 */
export function useLoaded<T>(load: (api: Api) => Promise<T>, on: readonly string[] = [], first?: T): Loaded<T> {
  const { api, listen, signedOut } = useEngine();
  const [value, setValue] = useState<T | null>(first ?? null);
  const [error, setError] = useState<unknown>(null);
  const [loading, setLoading] = useState(first === undefined);
  const once = useRef({ load, on, turn: 0, skip: first !== undefined });

  const reload = useCallback(() => {
    once.current.turn += 1;
    const { turn } = once.current;
    setLoading(true);
    once.current.load(api).then(
      (loaded) => {
        if (turn !== once.current.turn) return;
        setValue(loaded);
        setError(null);
        setLoading(false);
      },
      (failed: unknown) => {
        if (turn !== once.current.turn) return;
        if (failed instanceof CallError && failed.status === 401) signedOut();
        setError(failed);
        setLoading(false);
      },
    );
  }, [api, signedOut]);

  useEffect(() => {
    const { current } = once;
    if (current.skip) current.skip = false;
    else reload();
    const stop = listen((event) => {
      if (current.on.includes(event.type)) reload();
    });
    return () => {
      current.turn += 1;
      stop();
    };
  }, [reload, listen]);

  return { value, error, loading, reload, set: setValue };
}

/** Reads again when the person comes back to the window, and every `everyMs` while it is looked at; null: not by time. */
export function useReread(reload: () => void, everyMs: number | null): void {
  useEffect(() => {
    const again = () => {
      if (document.visibilityState !== "hidden") reload();
    };
    const timer = everyMs === null ? undefined : setInterval(again, everyMs);
    addEventListener("focus", again);
    document.addEventListener("visibilitychange", again);
    return () => {
      clearInterval(timer);
      removeEventListener("focus", again);
      document.removeEventListener("visibilitychange", again);
    };
  }, [reload, everyMs]);
}

/** How often what waits for an answer is looked for while it matters: files that change on disk are not told of. */
export const WAITING_MS = 3000;

export interface Act {
  busy: boolean;
  error: unknown;
  /** Runs one act at a time; a second one while the first runs is not started. Resolves to whether it worked. */
  run(act: () => Promise<void>): Promise<boolean>;
  clear(): void;
}

export function useAct(): Act {
  const { signedOut } = useEngine();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const running = useRef(false);
  const run = useCallback(
    async (act: () => Promise<void>) => {
      if (running.current) return false;
      running.current = true;
      setBusy(true);
      setError(null);
      try {
        await act();
        return true;
      } catch (failed) {
        if (failed instanceof CallError && failed.status === 401) signedOut();
        setError(failed);
        return false;
      } finally {
        running.current = false;
        setBusy(false);
      }
    },
    [signedOut],
  );
  const clear = useCallback(() => setError(null), []);
  return { busy, error, run, clear };
}
