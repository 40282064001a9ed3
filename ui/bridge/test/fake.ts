import type { Place } from "../src/address";
import { makeFetch } from "../src/fetch";
import { Exchange, type In, openWire, type PageWindow } from "../src/wire";

export const SECRET = "0123456789abcdef0123456789abcdef";

type Sent = { t: string; s: string; id: number; [field: string]: unknown };

/** The native side of an app window: what the page posts, and `__chrysalisIn` called as `evaluate_script` would. */
export function appWindow() {
  const sent: Sent[] = [];
  let onSent = () => {};
  const win = {
    ipc: {
      postMessage(text: string) {
        sent.push(JSON.parse(text));
        onSent();
      },
    },
    addEventListener() {},
    removeEventListener() {},
  } as PageWindow & { __chrysalisIn?: (batch: unknown) => void };
  const boot = {
    transport: "ipc",
    app: "demo",
    secret: SECRET,
    base: "",
    storage: { local: {}, session: {} },
    quota: 200,
  };
  const exchange = new Exchange(openWire(win, boot as never));
  let batch = 0;
  return {
    win,
    sent,
    exchange,
    place: (): Place => ({ href: "chrysalis-app://demo/index.html", base: "" }),
    deliver(...messages: In[]) {
      // A script literal, as over evaluate_script.
      win.__chrysalisIn?.(JSON.parse(JSON.stringify([SECRET, ++batch, messages])));
    },
    of: (t: string) => sent.filter((message) => message.t === t),
    /** Resolves with the n-th message of this kind, as soon as the page has sent it. */
    async sentMessage(t: string, n = 0): Promise<Sent> {
      for (;;) {
        const found = sent.filter((message) => message.t === t)[n];
        if (found) return found;
        await new Promise<void>((done) => {
          onSent = done;
        });
      }
    },
  };
}

export function appPage(blobs = new Map<string, Blob>()) {
  const page = appWindow();
  return { ...page, fetch: makeFetch(page.exchange, page.place, blobs) };
}
