// @vitest-environment happy-dom
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { type Answers, Screen } from "../../test-kit";
import { pictureAt, soundOf } from "./blob";

// Settings → Speech and images on a made-up engine.

let screen: Screen;
let endpoints: Record<string, unknown>[];
let dataUrl: string;
const played: string[] = [];

const answer: Answers = ({ method, path, body }) => {
  const given = (body ?? {}) as Record<string, unknown>;
  switch (`${method} ${path}`) {
    case "GET /v1/images/models":
      return { models: [{ ref: "c/painter", label: "painter", connectionName: "Studio" }], default: null };
    case "POST /v1/images":
      return { url: "/v1/assets/a1.png", mimeType: "image/png", model: "painter", cost: null };
    case "GET /v1/assets/a1.png":
      return new Response(new Uint8Array([137, 80, 78, 71]), { headers: { "content-type": "image/png" } });
    case "GET /v1/audio/voices":
      return { voices: [{ id: "bella", name: "Bella", of: "Kokoro", endpoint: "e1" }], default: "bella" };
    case "POST /v1/audio/speech":
      return { dataUrl, voice: "Bella" };
    case "GET /v1/audio/speech/endpoints":
      return { endpoints };
    case "POST /v1/audio/speech/endpoints":
      endpoints.push({ id: "e2", ...given });
      return {};
    case "DELETE /v1/audio/speech/endpoints/e1":
      endpoints = endpoints.filter((one) => one.id !== "e1");
      return {};
    case "GET /v1/embeddings/config":
      return { model: "embed", connection: null, available: true };
    case "POST /v1/embeddings/probe":
      return { ok: true, dimensions: 768 };
    case "PUT /v1/embeddings/config":
    case "PUT /v1/settings":
      return { onboarded: true, ...given };
  }
  return undefined;
};
const sent = (path: string) => screen.asked.filter((one) => one.path === path).map((one) => one.body);

beforeEach(async () => {
  endpoints = [{ id: "e1", name: "Kokoro", baseUrl: "http://127.0.0.1:8/v1", model: "k", voice: "bella" }];
  dataUrl = `data:audio/mpeg;base64,${btoa("sound")}`;
  played.length = 0;
  vi.stubGlobal(
    "Audio",
    class extends EventTarget {
      constructor(private address: string) {
        super();
      }
      play() {
        played.push(this.address);
        return Promise.resolve();
      }
      pause() {
        played.push("stopped");
      }
    },
  );
  screen = new Screen(answer);
  await screen.show("#/settings/speech");
  await screen.until(() => screen.named("Edit Kokoro")[0]);
});
afterEach(async () => {
  await screen.end();
  vi.unstubAllGlobals();
});

it("makes a picture, shows it from a blob, and does not call an unknown cost free", async () => {
  await screen.enter("What it should show", "a tree");
  await screen.press("Make a picture");
  const picture = await screen.until(() => screen.host.querySelector("img"));
  expect(picture.src).toMatch(/^blob:/);
  expect(picture.alt).toContain("a tree");
  expect(screen.text()).toContain("What it cost is not known.");
  expect(sent("/v1/images")).toEqual([{ prompt: "a tree" }]);
});

it("keeps the model for pictures", async () => {
  await screen.enter("Model for pictures", "c/painter");
  await screen.until(() => sent("/v1/settings")[0]);
  expect(sent("/v1/settings")).toEqual([{ imageModel: "c/painter" }]);
});

it("keeps a voice with the server that has it, and speaks with both", async () => {
  await screen.enter("Voice", "e1/bella");
  await screen.until(() => sent("/v1/settings")[0]);
  expect(sent("/v1/settings")).toEqual([{ speechVoice: "bella", speechFrom: "e1" }]);
  await screen.press("Play");
  await screen.until(() => sent("/v1/audio/speech")[0]);
  expect(sent("/v1/audio/speech")[0]).toMatchObject({ voice: "bella", endpointId: "e1" });
});

it("plays what was spoken, at the speed that is set, and stops", async () => {
  await screen.enter("Speed", "9");
  await screen.shows("a number from 0.25 to 4");
  await screen.enter("Speed", "1.5");
  await screen.press("Play");
  await screen.shows("Playing Bella.");
  expect(sent("/v1/audio/speech")[0]).toMatchObject({ speed: 1.5 });
  expect(played[0]).toMatch(/^blob:/);
  await screen.press("Stop");
  expect(played.at(-1)).toBe("stopped");
});

it("says so when the sound is none", async () => {
  dataUrl = "data:text/html,<b>";
  await screen.press("Play");
  await screen.shows("could not be played");
  expect(played).toEqual([]);
});

it("adds and deletes speech servers", async () => {
  await screen.press("Add a speech server");
  await screen.enter("Address", "nowhere");
  await screen.press("Save");
  await screen.shows("beginning with http://");
  await screen.enter("Address", "http://127.0.0.1:99/v1");
  await screen.press("Save");
  await screen.shows("127.0.0.1:99");
  expect(sent("/v1/audio/speech/endpoints")).toEqual([
    { name: "127.0.0.1:99", baseUrl: "http://127.0.0.1:99/v1", model: "", voice: "" },
  ]);
  await screen.press("Delete Kokoro");
  await screen.press("Delete Kokoro");
  await screen.until(() => screen.named("Edit Kokoro").length === 0);
});

it("tries the embeddings", async () => {
  await screen.press("Try it");
  await screen.shows("768 numbers");
});

it.each([
  "",
  "data:audio/mpeg,plain",
  "data:text/html;base64,PGI+",
  "javascript:alert(1)",
  "data:audio/mpeg;base64,%%%",
])("%j is no sound", (text) => expect(soundOf(text)).toBeNull());

it.each([
  ["/v1/assets/a", "text/html"],
  ["/v1/assets/a", "image/svg+xml"],
  ["/v1/assets/../me", "image/png"],
  ["https://x.test/v1/assets/a", "image/png"],
])("%s of %s is no picture", async (url, type) => {
  const call = async () => new Response("x", { headers: { "content-type": type } });
  const backend = { kind: "web" as const, call, events: () => () => undefined, openApp: () => Promise.resolve() };
  expect(await pictureAt(backend, url)).toBeNull();
});
