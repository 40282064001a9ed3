import { type Call, list, num, object, str } from "./read";

// Pictures, speech and embeddings.

export interface ImageModels {
  models: { ref: string; label: string; connectionName: string }[];
  default: string | null;
}
export interface Picture {
  /** Where the engine keeps it: `/v1/assets/…`. */
  url: string;
  model: string;
  /** In US dollars; null when it is not known. */
  cost: number | null;
}
export interface Voice {
  id: string;
  name: string;
  /** The id of the connection or speech server that has it. */
  from: string;
  fromName: string;
  isServer: boolean;
}
export interface Voices {
  voices: Voice[];
  /** Those that could not say which voices they have. */
  errors: { name: string; error: string }[];
}
export interface SpeechEndpoint {
  id: string;
  name: string;
  baseUrl: string;
  model: string;
  voice: string;
  hasKey: boolean;
}
export interface SpeechEndpointInput {
  name: string;
  baseUrl: string;
  model: string;
  voice: string;
  key?: string;
}
export interface Spoken {
  dataUrl: string;
  url: string;
  voice: string;
}
export interface Embeddings {
  model: string;
  connection: string;
  available: boolean;
}

const some = (value: unknown): string | null => (typeof value === "string" && value !== "" ? value : null);

export function mediaCalls(call: Call) {
  const ENDPOINTS = "/v1/audio/speech/endpoints";
  const endpoint = (id: string) => `${ENDPOINTS}/${encodeURIComponent(id)}`;
  return {
    async imageModels(): Promise<ImageModels> {
      const v = object(await call("GET", "/v1/images/models"));
      return {
        models: list(v.models).map((m) => ({
          ref: str(m.ref),
          label: str(m.label) || str(m.ref),
          connectionName: str(m.connectionName),
        })),
        default: some(v.default),
      };
    },
    async paint(prompt: string, model: string, size: string): Promise<Picture> {
      const body = { prompt, ...(model ? { model } : {}), ...(size ? { size } : {}) };
      const v = object(await call("POST", "/v1/images", body));
      return { url: str(v.url), model: str(v.model), cost: num(v.cost) };
    },
    async voices(): Promise<Voices> {
      const v = object(await call("GET", "/v1/audio/voices"));
      return {
        voices: list(v.voices).map((one) => ({
          id: str(one.id),
          name: str(one.name) || str(one.id),
          from: str(one.endpoint) || str(one.connection),
          fromName: str(one.of),
          isServer: str(one.endpoint) !== "",
        })),
        errors: list(v.errors).map((one) => ({ name: str(one.name), error: str(one.error) })),
      };
    },
    async speak(
      text: string,
      wanted: { voice?: string; speed?: number; endpointId?: string; connection?: string },
    ): Promise<Spoken> {
      const v = object(await call("POST", "/v1/audio/speech", { text, ...wanted }));
      return { dataUrl: str(v.dataUrl), url: str(v.url), voice: str(v.voice) || str(v.endpoint) };
    },
    async speechEndpoints(): Promise<SpeechEndpoint[]> {
      const v = object(await call("GET", ENDPOINTS));
      return list(v.endpoints).map((e) => ({
        id: str(e.id),
        name: str(e.name) || str(e.baseUrl) || str(e.id),
        baseUrl: str(e.baseUrl),
        model: str(e.model),
        voice: str(e.voice),
        hasKey: e.hasKey === true,
      }));
    },
    /** A new one without an id. */
    async saveSpeechEndpoint(id: string | null, input: SpeechEndpointInput): Promise<void> {
      await (id === null ? call("POST", ENDPOINTS, input) : call("PATCH", endpoint(id), input));
    },
    async removeSpeechEndpoint(id: string): Promise<void> {
      await call("DELETE", endpoint(id));
    },
    async embeddings(): Promise<Embeddings> {
      const v = object(await call("GET", "/v1/embeddings/config"));
      return { model: str(v.model), connection: str(v.connection), available: v.available === true };
    },
    async setEmbeddings(model: string, connection: string): Promise<void> {
      await call("PUT", "/v1/embeddings/config", { model, ...(connection ? { connection } : {}) });
    },
    async probeEmbeddings(
      model: string,
      connection: string,
    ): Promise<{ ok: boolean; dimensions: number | null; error: string }> {
      const v = object(
        await call("POST", "/v1/embeddings/probe", {
          ...(model ? { model } : {}),
          ...(connection ? { connection } : {}),
        }),
      );
      return { ok: v.ok === true, dimensions: num(v.dimensions), error: str(v.error) };
    },
  };
}
