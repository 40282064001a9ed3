import { describe, expect, it } from "vitest";
import { api, CallError } from "./api";
import type { EngineEvent } from "./backend";
import { webBackend } from "./backend.web";

interface Sent {
  path: string;
  init: RequestInit;
}

function answering(answer: (path: string, turn: number) => Response | Promise<Response>) {
  const sent: Sent[] = [];
  const backend = webBackend((input, init) => {
    sent.push({ path: String(input), init: init ?? {} });
    return Promise.resolve(answer(String(input), sent.length));
  });
  return { backend, sent };
}

describe("the browser's way to the engine", () => {
  it("marks every request, stays on its own origin and follows no redirect", async () => {
    const { backend, sent } = answering(() => new Response("{}"));
    await api(backend).change({ theme: "dark" });
    const { path, init } = sent[0] as Sent;
    expect(path).toBe("/v1/settings");
    expect(init.method).toBe("PUT");
    expect(new Headers(init.headers).get("x-chrysalis-request")).toBe("1");
    expect(init.credentials).toBe("same-origin");
    expect(init.redirect).toBe("error");
    expect(init.body).toBe('{"theme":"dark"}');
  });

  it("calls nothing but /v1/", async () => {
    const { backend, sent } = answering(() => new Response("{}"));
    for (const path of ["//evil.example/v1/", "https://evil.example/v1/me", "/frame/x/", "v1/me"]) {
      await expect(backend.call("GET", path)).rejects.toThrow(TypeError);
    }
    expect(sent).toEqual([]);
  });

  it("puts ids into paths as one segment", async () => {
    const { backend, sent } = answering(() => new Response(null, { status: 204 }));
    await api(backend).removeApp("../auth/logout?x#y");
    expect(sent[0]?.path).toBe("/v1/apps/..%2Fauth%2Flogout%3Fx%23y");
  });

  it("tells a refusal, something that is not JSON and an engine that is gone apart", async () => {
    const failed = async (answer: () => Response | Promise<Response>) => {
      const error = await api(answering(answer).backend)
        .me()
        .catch((e: unknown) => e);
      expect(error).toBeInstanceOf(CallError);
      return error as CallError;
    };
    const refused = await failed(() => Response.json({ error: "sign in first", code: "auth" }, { status: 401 }));
    expect([refused.message, refused.status, refused.code]).toEqual(["sign in first", 401, "auth"]);
    const html = await failed(() => new Response("<h1>Welcome to nginx</h1>"));
    expect([html.message, html.status]).toEqual(["", 200]);
    expect(html.raw).toContain("<h1>Welcome to nginx</h1>");
    const gone = await failed(() => Promise.reject(new TypeError("connection refused")));
    expect(gone.code).toBe("unreachable");
    expect(gone.raw).toContain("connection refused");
  });

  it("takes odd answers for what they are worth", async () => {
    const { backend } = answering(() =>
      Response.json({ apps: [{ id: 7, name: null, plugins: "x" }, null, "y"], broken: "no", box: {}, engine: null }),
    );
    const launch = await api(backend).launch();
    expect(launch.apps.map((app) => [app.id, app.name, app.plugins])).toEqual([
      ["7", "7", 0],
      ["", "", 0],
      ["", "", 0],
    ]);
    expect(launch.broken).toEqual([]);
    expect(launch.box).toEqual([]);
  });

  it("follows the events again after the stream ended, and stops for good on 401", async () => {
    const stream = (text: string) => new Response(text, { headers: { "content-type": "text/event-stream" } });
    const { backend, sent } = answering((_, turn) => {
      if (turn === 1) return stream('data: {"type":"hello","payload":{}}\n\ndata: broken\n\ndata: {"type":7}\n\n');
      if (turn === 2) return stream('data: {"type":"apps_changed","payload":{}}\n\n');
      return new Response("", { status: 401 });
    });
    const heard: EngineEvent[] = [];
    const stop = backend.events((event) => heard.push(event));
    await expect.poll(() => sent.length).toBe(3);
    expect(heard.map((event) => event.type)).toEqual(["hello", "apps_changed"]);
    stop();
  });
});
