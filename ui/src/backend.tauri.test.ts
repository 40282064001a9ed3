// @vitest-environment happy-dom
import { clearMocks, mockIPC } from "@tauri-apps/api/mocks";
import { afterEach, describe, expect, it } from "vitest";
import { type Piece, tauriBackend } from "./backend.tauri";

afterEach(() => clearMocks());

interface Call {
  id: number;
  method: string;
  path: string;
  headers: [string, string][];
  body: string | null;
  onChunk: { onmessage(piece: Piece): void };
}

/** A shell whose `call` is answered by the test through the real channel object. */
function shell() {
  const calls: Call[] = [];
  const others: [string, unknown][] = [];
  mockIPC((command, args) => {
    if (command === "call") calls.push(args as unknown as Call);
    else others.push([command, args]);
  });
  return { calls, others, backend: tauriBackend() };
}

const b64 = (text: string) => btoa(String.fromCharCode(...new TextEncoder().encode(text)));

describe("the desktop's way to the engine", () => {
  it("streams an answer piece by piece", async () => {
    const { calls, backend } = shell();
    const pending = backend.call("POST", "/v1/x", { headers: { "content-type": "text/plain" }, body: "hé" });
    await expect.poll(() => calls.length).toBe(1);
    const call = calls[0] as Call;
    expect([call.method, call.path, call.headers, call.body]).toEqual([
      "POST",
      "/v1/x",
      [["content-type", "text/plain"]],
      "hé",
    ]);
    call.onChunk.onmessage({ t: "head", status: 201, headers: [["x-a", "b"]] });
    const answer = await pending;
    expect([answer.status, answer.headers.get("x-a")]).toEqual([201, "b"]);
    const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
    call.onChunk.onmessage({ t: "chunk", b64: b64("日本") });
    expect(new TextDecoder().decode((await reader.read()).value)).toBe("日本");
    call.onChunk.onmessage({ t: "end" });
    expect((await reader.read()).done).toBe(true);
  });

  it("cancels in the shell when the caller aborts, and never twice", async () => {
    const { calls, others, backend } = shell();
    const stop = new AbortController();
    const pending = backend.call("GET", "/v1/events", { signal: stop.signal });
    await expect.poll(() => calls.length).toBe(1);
    stop.abort();
    await expect(pending).rejects.toMatchObject({ name: "AbortError" });
    stop.abort();
    expect(others).toEqual([["cancel", { id: calls[0]?.id }]]);
  });

  it("passes on an error before and after the head", async () => {
    const { calls, backend } = shell();
    const early = backend.call("GET", "/v1/a");
    const late = backend.call("GET", "/v1/b");
    await expect.poll(() => calls.length).toBe(2);
    calls[0]?.onChunk.onmessage({ t: "error", message: "the engine is closing" });
    await expect(early).rejects.toThrow("the engine is closing");
    calls[1]?.onChunk.onmessage({ t: "head", status: 200, headers: [] });
    const answer = await late;
    calls[1]?.onChunk.onmessage({ t: "error", message: "cut off" });
    await expect(answer.text()).rejects.toThrow("cut off");
  });

  it("gives answers without a body where the status has none", async () => {
    const { calls, backend } = shell();
    const pending = backend.call("DELETE", "/v1/a");
    await expect.poll(() => calls.length).toBe(1);
    calls[0]?.onChunk.onmessage({ t: "head", status: 204, headers: [] });
    calls[0]?.onChunk.onmessage({ t: "end" });
    expect(await (await pending).text()).toBe("");
  });
});
