import { useCallback, useSyncExternalStore } from "react";
import { formatAgo, formatMoment } from "../i18n";

// One clock for all times on a page. Each is drawn again only when its own words change.

const TICK_MS = 5000;
const hearing = new Set<() => void>();
let now = Date.now();
let timer: ReturnType<typeof setInterval> | undefined;

function subscribe(heard: () => void): () => void {
  hearing.add(heard);
  timer ??= setInterval(() => {
    now = Date.now();
    for (const one of [...hearing]) one();
  }, TICK_MS);
  return () => {
    hearing.delete(heard);
    if (hearing.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}

/** How long ago something was; exactly when, where the pointer rests. Nothing for what is no date. */
export function Ago({ at }: { at: number }) {
  // What is newer than the last tick is as old as that tick.
  const words = useSyncExternalStore(
    subscribe,
    useCallback(() => formatAgo(at, Math.max(now, at)), [at]),
  );
  if (words === "") return null;
  return (
    <time dateTime={new Date(at).toISOString()} title={formatMoment(at)}>
      {words}
    </time>
  );
}
