import type { Backend, CallOptions, Method } from "./backend";
import { followEvents } from "./events";
import { go } from "./route";

/**
 * The engine behind `chrysalis serve`, same origin. The session is an HttpOnly cookie; every write carries
 * `X-Chrysalis-Request: 1`, which a foreign page cannot add without a preflight that the engine refuses.
 */
export function webBackend(send: typeof fetch = (...args) => fetch(...args)): Backend {
  const call = (method: Method, path: string, options: CallOptions = {}): Promise<Response> => {
    if (!path.startsWith("/v1/")) return Promise.reject(new TypeError(`the launcher only calls /v1/, not ${path}`));
    return send(path, {
      method,
      headers: { ...options.headers, "X-Chrysalis-Request": "1" },
      body: options.body ?? null,
      signal: options.signal ?? null,
      credentials: "same-origin",
      cache: "no-store",
      redirect: "error",
      referrerPolicy: "no-referrer",
    });
  };
  return {
    kind: "web",
    call,
    events: (onEvent, onState) => followEvents(call, onEvent, onState),
    openApp: async (id) => go({ screen: "app", id }),
  };
}
