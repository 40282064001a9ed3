import { type DownloadAsk, type LinkAsk, PageHost, type StopReason } from "./frames/host";
import type { PaceLimits } from "./frames/pace";
import { Bucket } from "./frames/pace";
import { StorageWriter } from "./frames/storage";

// Shows an app's page in the browser: a frame with an opaque origin under its own token (design/browser.md), and the
// handshake that gives each page load one port of its own. Who speaks is told by the frame's window and by the port,
// never by anything the page says.

/**
 * No popups, no same origin, no top navigation. Links and downloads go through the shell; with `allow-downloads` a page
 * could drop its own files into the person's folder by going to their address, unasked.
 */
export const FRAME_SANDBOX = "allow-scripts allow-forms";

/** Window messages from the frame per second, and at once: the bridge says hello every 300 ms until it is answered. */
const HELLOS_PER_SECOND = 10;
const HELLO_BURST = 60;

export interface FrameOptions {
  app: string;
  /** The title of the frame for screen readers. */
  title: string;
  mount: HTMLElement;
  send?: typeof fetch;
  onDownload(ask: DownloadAsk): void;
  onLink(ask: LinkAsk): void;
  /** The page was stopped; its frame is gone. Opening it again is up to the person. */
  onStop(reason: StopReason): void;
  onReady?(): void;
  pace?: PaceLimits;
}

export interface OpenFrame {
  readonly iframe: HTMLIFrameElement;
  /** Takes the frame down, lets storage writes that wait go out, and gives the token back. */
  close(): Promise<void>;
  /** False when the engine does not know the frame's token any more, as after a restart: nothing in it works then. */
  alive(): Promise<boolean>;
}

/** What a refused frame request said, with the engine's own words when there are some. */
export class FrameError extends Error {
  constructor(
    message: string,
    readonly raw: string,
  ) {
    super(message);
    this.name = "FrameError";
  }
}

interface Hello {
  doc: string;
}

/** The handshake's first message, or null when it is none. */
export function readHello(data: unknown): Hello | null {
  if (typeof data !== "object" || data === null) return null;
  const { chrysalis, t, doc } = data as Record<string, unknown>;
  if (chrysalis !== 1 || t !== "hello" || typeof doc !== "string" || doc === "" || doc.length > 64) return null;
  return { doc };
}

export async function openFrame(o: FrameOptions): Promise<OpenFrame> {
  const send = o.send ?? ((...args: Parameters<typeof fetch>) => fetch(...args));
  const app = encodeURIComponent(o.app);
  const asOwner: RequestInit = {
    headers: { "X-Chrysalis-Request": "1" },
    credentials: "same-origin",
    redirect: "error",
  };
  const answer = await send(`/v1/apps/${app}/frame`, { ...asOwner, method: "POST" });
  const text = await answer.text();
  const token = answer.ok ? tokenOf(text) : null;
  if (!token)
    throw new FrameError(errorOf(text), `POST /v1/apps/${app}/frame → ${answer.status}\n${text.slice(0, 2000)}`);

  let host: PageHost | null = null;
  let doc: string | null = null;
  let closed = false;
  const hellos = new Bucket(HELLOS_PER_SECOND, HELLO_BURST, performance.now());

  const storage = new StorageWriter(
    async ({ which, op, key, value }) => {
      const saved = await send(`/v1/apps/${app}/__storage`, {
        method: "POST",
        headers: { "content-type": "application/json", "X-Chrysalis-Frame": token, "X-Chrysalis-Request": "1" },
        body: JSON.stringify({ which, op, key, value }),
        credentials: "omit",
        redirect: "error",
      });
      if (!saved.ok) throw new Error(errorOf(await saved.text()) || `the engine answered ${saved.status}`);
    },
    (write, message) => host?.storageError(write.which, write.op, write.key, message),
  );

  const iframe = document.createElement("iframe");
  iframe.setAttribute("sandbox", FRAME_SANDBOX);
  iframe.setAttribute("referrerpolicy", "no-referrer");
  iframe.setAttribute("allow", "");
  iframe.title = o.title;
  iframe.className = "page";

  const takeDown = () => {
    closed = true;
    removeEventListener("message", onMessage);
    host?.close();
    host = null;
    iframe.remove();
  };
  const giveBack = async () => {
    await storage.flush();
    // A token that is dead already (session over, engine restarted) needs no giving back.
    await send(`/v1/apps/${app}/frame/${token}`, { ...asOwner, method: "DELETE", keepalive: true }).catch(
      () => undefined,
    );
  };
  const stop = (reason: StopReason) => {
    if (closed) return;
    takeDown();
    void giveBack();
    o.onStop(reason);
  };

  function onMessage(event: MessageEvent): void {
    const page = iframe.contentWindow;
    if (closed || !page || event.source !== page) return;
    if (!hellos.has(1, performance.now())) return stop("flood");
    hellos.take(1);
    const hello = readHello(event.data);
    if (!hello || hello.doc === doc) return;
    // A new document: the one before it is gone, and with it everything it had asked for.
    host?.close();
    doc = hello.doc;
    const channel = new MessageChannel();
    host = new PageHost({
      app: o.app,
      token: token as string,
      origin: location.origin,
      port: channel.port1,
      send,
      storage,
      onDownload: o.onDownload,
      onLink: o.onLink,
      onStop: stop,
      ...(o.pace ? { pace: o.pace } : {}),
    });
    // The frame's origin is opaque, so no origin can be named; the window it goes to is the one that asked.
    page.postMessage({ chrysalis: 1, t: "init", doc }, "*", [channel.port2]);
    o.onReady?.();
  }

  addEventListener("message", onMessage);
  iframe.src = `/frame/${token}/`;
  o.mount.append(iframe);

  return {
    iframe,
    close: async () => {
      if (closed) return;
      takeDown();
      await giveBack();
    },
    alive: async () => {
      const asked = await send(`/v1/apps/${app}/__storage`, {
        headers: { "X-Chrysalis-Frame": token },
        credentials: "omit",
        redirect: "error",
      });
      return asked.status !== 403;
    },
  };
}

/** The token of a frame answer: letters and digits only, so that it can stand in a path and in a header as it is. */
function tokenOf(text: string): string | null {
  try {
    const { token } = JSON.parse(text) as { token?: unknown };
    return typeof token === "string" && /^[A-Za-z0-9_-]{16,128}$/.test(token) ? token : null;
  } catch {
    return null;
  }
}

function errorOf(text: string): string {
  try {
    const { error } = JSON.parse(text) as { error?: unknown };
    return typeof error === "string" ? error : "";
  } catch {
    return "";
  }
}

/** The first Chromium in which nothing at all left a frame (measured, design/browser.md). */
const KEEPS_FRAMES_IN = 156;

/**
 * Whether a hostile page in a frame can still signal through the host name of a pre-connection or through WebRTC,
 * because this browser does not know `Connection-Allowlist`. Nothing tells that directly: Firefox and Safari have no
 * `userAgentData` at all, and in the others the engine's version decides. An unknown browser counts as open.
 */
export function leavesPreconnectsOpen(nav: Navigator = navigator): boolean {
  const data = (nav as { userAgentData?: { brands?: { brand?: unknown; version?: unknown }[] } }).userAgentData;
  const brands = Array.isArray(data?.brands) ? data.brands : [];
  return !brands.some((b) => b.brand === "Chromium" && Number(b.version) >= KEEPS_FRAMES_IN);
}
