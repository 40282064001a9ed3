// Timers. Guest code, evaluated when one of its globals is first read in a context; see web.rs.
export default (sandbox) => {
  const { call, log } = sandbox;
  // Handle → timer, in the order of their making. Timers of an earlier call (of a lasting context) are gone with it.
  let pending = new Map();
  let sleeping = [];
  let last = 0;
  let turn = sandbox.run;
  const LONGEST = 60_000;

  const begin = () => {
    if (turn === sandbox.run) return;
    turn = sandbox.run;
    pending = new Map();
    sleeping = [];
  };

  const earliest = () => {
    let found;
    for (const timer of pending.values()) if (found === undefined || timer.due < found.due) found = timer;
    return found;
  };

  // One host call sleeps until the next timer is due; a timer that is due earlier gets another one.
  const wait = () => {
    const next = earliest();
    if (next === undefined || sleeping.some((end) => end <= next.due)) return;
    const now = Date.now();
    const end = Math.min(Math.max(next.due, now), now + LONGEST);
    const mine = sandbox.run;
    sleeping.push(end);
    const woken = (error) => {
      if (mine !== sandbox.run) return;
      sleeping.splice(sleeping.indexOf(end), 1);
      if (error === undefined) {
        fire(Math.max(Date.now(), end));
        wait();
      } else {
        log("error", `timers have ended: ${error?.message ?? error}`);
        pending.clear();
      }
    };
    call("sleep", [Math.max(0, end - now)]).then(() => woken(), woken);
  };

  // One at a time: what it set off (promises) comes before the next one.
  const fire = (now) => {
    const timer = earliest();
    if (timer === undefined || timer.due > now) return;
    if (timer.every === null) pending.delete(timer.handle);
    else timer.due = now + timer.every;
    try {
      timer.run();
    } catch (error) {
      // Logged with its place, as every error that nobody catches.
      Promise.reject(error);
    }
  };

  const start = (callback, delay, args, repeat) => {
    if (typeof callback !== "function") throw new TypeError("a timer needs a function to call");
    begin();
    const least = repeat ? 1 : 0;
    delay = Number(delay);
    const every = delay >= least && delay <= 2_147_483_647 ? Math.trunc(delay) : least;
    const handle = ++last;
    const run = () => callback(...args);
    pending.set(handle, { handle, due: Date.now() + every, every: repeat ? every : null, run });
    wait();
    return handle;
  };
  const clear = (handle) => {
    begin();
    pending.delete(Number(handle));
  };

  return {
    setTimeout: (callback, delay = 0, ...args) => start(callback, delay, args, false),
    setInterval: (callback, delay = 0, ...args) => start(callback, delay, args, true),
    clearTimeout: (handle) => clear(handle),
    clearInterval: (handle) => clear(handle),
  };
};
