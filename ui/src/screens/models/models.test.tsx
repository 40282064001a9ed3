// @vitest-environment happy-dom
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Answers, Screen } from "../../test-kit";

// Settings → Models on a made-up engine: what is asked of it, and what a person is told.

let screen: Screen;
let connections: Record<string, unknown>[];
let store: string | null;
let locked: boolean;
let models: Record<string, unknown>[];
let hello: Record<string, unknown>;
let access: unknown;

const KEY = "sk-typed-once";
const keys = () => ({
  store,
  keychain: { usable: false, locked: false, reason: "no Secret Service answers" },
  encrypted: { exists: store === "encrypted", unlocked: !locked },
  file: { path: store === "file" ? "/etc/keys.toml" : null },
});
const refused = (status: number, error: string, code?: string) => Response.json({ error, code }, { status });

const answer: Answers = ({ method, path, body }) => {
  const given = (body ?? {}) as Record<string, unknown>;
  switch (`${method} ${path}`) {
    case "GET /v1/settings/connections":
      return { connections, keys: keys() };
    case "GET /v1/settings/keys":
      return keys();
    case "PUT /v1/settings/keys":
      store = String(given.store);
      locked = false;
      return keys();
    case "POST /v1/settings/keys/unlock":
      if (given.passphrase !== "right passphrase") return refused(403, "no", "passphrase");
      locked = false;
      return keys();
    case "GET /v1/settings/providers":
      return {
        presets: [
          {
            id: "one",
            name: "First Hosted",
            baseUrl: "https://one.test/v1",
            needsKey: true,
            keyPage: "https://one.test/k",
          },
          { id: "two", name: "Second Hosted", baseUrl: "https://two.test/v1", needsKey: true },
          { id: "here", name: "Home Server", baseUrl: "http://127.0.0.1:7/v1", local: true },
        ],
        apis: [
          { id: "openai-completions", name: "Chat completions" },
          { id: "openai-text", name: "Text completion" },
        ],
      };
    case "GET /v1/settings/local-servers":
      return { servers: [{ name: "Home Server", preset: "here", baseUrl: "http://127.0.0.1:7/v1", models: ["m"] }] };
    case "GET /v1/models":
      return { models, errors: [], default: null };
    case "GET /v1/models/prompt-formats":
      return { formats: [{ id: "chatml", name: "ChatML" }] };
    case "POST /v1/settings/connections":
      if (given.key && store === null) return refused(409, "choose", "choose_key_store");
      if (given.key && locked) return refused(409, "locked", "key_store_locked");
      connections.push({ id: "new", ...given, key: undefined, hasKey: Boolean(given.key), keyKept: store });
      return { connection: connections.at(-1), notice: "" };
    case "PATCH /v1/settings/connections/c_one":
      return { connection: connections[0], notice: "" };
    case "POST /v1/settings/connections/c_one/test":
      return hello;
    case "GET /v1/settings/app-models/chat":
      return { models: access };
    case "PUT /v1/settings/app-models/chat":
      access = given.models;
      return { models: access };
    case "PUT /v1/models/context":
    case "PUT /v1/models/pricing":
    case "PUT /v1/settings":
      return given;
  }
  return undefined;
};
const sent = (method: string, path: string) =>
  screen.asked.filter((one) => one.method === method && one.path === path).map((one) => one.body);

beforeEach(async () => {
  connections = [
    {
      id: "c_one",
      name: "Kitchen",
      preset: "one",
      api: "openai-completions",
      baseUrl: "https://one.test/v1",
      finalUrl: "https://one.test/v1/chat/completions",
      models: "auto",
      hasKey: true,
      keyKept: "encrypted",
    },
  ];
  [store, locked, access] = ["encrypted", false, "all"];
  models = [
    { ref: "c_one/a", modelId: "a", label: "Alpha", connectionName: "Kitchen", contextWindow: null, pricing: null },
    {
      ref: "c_one/b",
      modelId: "b",
      label: "Beta",
      connectionName: "Kitchen",
      contextWindow: 32768,
      contextSource: "you",
      pricing: { input: 0, output: 1.5 },
      priceSource: "table",
    },
  ];
  hello = {};
  screen = new Screen(answer);
});
afterEach(() => screen.end());
const open = async () => {
  await screen.show("#/settings/models");
  await screen.shows("Kitchen");
};

describe("a connection", () => {
  it("says what it is, where requests go in the end, and where its key is", async () => {
    await open();
    await screen.shows("First Hosted · Chat completions");
    expect(screen.text()).toContain("https://one.test/v1/chat/completions");
    expect(screen.text()).toContain("Key in the locked file");
  });

  it("says hello: how long the first word took, and the words", async () => {
    hello = { ok: true, model: "a", url: "https://one.test/v1/x", firstMs: 412, totalMs: 1300, text: "Hello there" };
    await open();
    await screen.press("Say hello to Kitchen");
    await screen.shows("First word after 412 ms");
    expect(screen.text()).toContain("Hello there");
    expect(screen.text()).toContain("https://one.test/v1/x");
  });

  it.each([
    [{ kind: "key" }, "The key was not accepted."],
    [{ kind: "credit" }, "There is no credit left."],
    [{ kind: "rate_limit", retryAfterMs: 20_000 }, "wait 20 sec"],
    [{ kind: "model_gone" }, "This model is not there."],
    [{ kind: "context", window: 4096 }, "4,096 tokens"],
    [{ kind: "limit" }, "A spending limit that you set is reached."],
    [{ kind: "constructor" }, "the server's own words"],
  ])("explains %j", async (errorInfo, words) => {
    hello = { ok: false, error: "the server's own words", errorInfo, url: "https://one.test/v1/x" };
    await open();
    await screen.press("Say hello to Kitchen");
    await screen.shows(words);
    expect(screen.text()).toContain("the server's own words");
  });

  it("leads from a wrong key into the field for it", async () => {
    hello = { ok: false, error: "401", errorInfo: { kind: "key" } };
    await open();
    await screen.press("Say hello to Kitchen");
    await screen.press("Enter the key again");
    const field = await screen.until(() => screen.named<HTMLInputElement>("Key")[0]);
    expect(document.activeElement).toBe(field);
  });

  it("warns that a changed address forgets the key, and not when a key is typed", async () => {
    await open();
    await screen.press("Edit Kitchen");
    await screen.enter("Address", "https://elsewhere.test/v1");
    await screen.shows("belongs to the old address");
    await screen.enter("Key", KEY);
    await screen.gone("belongs to the old address");
    await screen.press("Save");
    await screen.until(() => sent("PATCH", "/v1/settings/connections/c_one")[0]);
    expect(sent("PATCH", "/v1/settings/connections/c_one")).toEqual([
      { name: "Kitchen", baseUrl: "https://elsewhere.test/v1", key: KEY },
    ]);
  });
});

describe("a new connection", () => {
  it("is one click for what runs on this machine", async () => {
    await open();
    await screen.press("Add a connection");
    await screen.press("Use Home Server");
    await screen.until(() => sent("POST", "/v1/settings/connections")[0]);
    expect(sent("POST", "/v1/settings/connections")).toEqual([
      { name: "Home Server", baseUrl: "http://127.0.0.1:7/v1", preset: "here" },
    ]);
  });

  it("finds a service by typing, shows where its key is made as text, and takes the key", async () => {
    await open();
    await screen.press("Add a connection");
    await screen.enter("Search services", "first");
    await screen.until(() => screen.named("Connect Second Hosted").length === 0);
    await screen.press("Connect First Hosted");
    await screen.shows("https://one.test/k");
    expect([...screen.host.querySelectorAll("a")].every((a) => a.getAttribute("href")?.startsWith("#/"))).toBe(true);
    await screen.enter("Key", KEY);
    await screen.press("Connect");
    await screen.until(() => sent("POST", "/v1/settings/connections")[0]);
    expect(sent("POST", "/v1/settings/connections")).toEqual([
      {
        preset: "one",
        name: "First Hosted",
        api: "openai-completions",
        baseUrl: "https://one.test/v1",
        key: KEY,
        models: "auto",
      },
    ]);
  });

  it("can be any address, with its format, its models and a prompt format", async () => {
    await open();
    await screen.press("Add a connection");
    await screen.press("Enter an address");
    await screen.enter("Address", "http://127.0.0.1:9/v1");
    await screen.enter("Format", "openai-text");
    await screen.until(() => screen.host.querySelector("option[value=chatml]"));
    await screen.enter("Prompt format", "chatml");
    await screen.press("Only those I name");
    await screen.press("Connect");
    await screen.shows("Name at least one model");
    await screen.enter("Names of the models", " one \n\none\ntwo");
    await screen.press("Connect");
    await screen.until(() => sent("POST", "/v1/settings/connections")[0]);
    expect(sent("POST", "/v1/settings/connections")).toEqual([
      { api: "openai-text", baseUrl: "http://127.0.0.1:9/v1", models: ["one", "two"], promptFormat: "chatml" },
    ]);
  });
});

describe("keys", () => {
  const typeKey = async () => {
    await open();
    await screen.press("Add a connection");
    await screen.press("Connect First Hosted");
    await screen.enter("Key", KEY);
    await screen.press("Connect");
  };

  it("ask where they should be kept when nobody chose, and are saved then without typing again", async () => {
    store = null;
    await typeKey();
    await screen.shows("Where should keys be kept?");
    expect(screen.text()).toContain("no Secret Service answers");
    await screen.enter("Passphrase", "short");
    await screen.press("Keep it there and save the key");
    await screen.shows("at least 8 characters");
    await screen.enter("Passphrase", "long enough");
    await screen.press("Keep it there and save the key");
    await screen.shows("not the same");
    await screen.enter("The same passphrase again", "long enough");
    await screen.press("Keep it there and save the key");
    await screen.until(() => connections.length === 2);
    expect(sent("PUT", "/v1/settings/keys")).toEqual([{ store: "encrypted", passphrase: "long enough" }]);
    expect(sent("POST", "/v1/settings/connections").map((one) => (one as { key: string }).key)).toEqual([KEY, KEY]);
  });

  it("are not saved when the choice is called off, and what was typed stays", async () => {
    store = null;
    await typeKey();
    await screen.shows("Where should keys be kept?");
    await screen.press("Close");
    await screen.gone("Where should keys be kept?");
    expect(connections.length).toBe(1);
    expect(screen.named<HTMLInputElement>("Key")[0]?.value).toBe(KEY);
  });

  it("that are locked are unlocked with the passphrase", async () => {
    locked = true;
    await open();
    await screen.shows("The keys are locked");
    await screen.enter("Passphrase", "wrong passphrase");
    await screen.press("Unlock");
    await screen.shows("This is not the passphrase.");
    await screen.enter("Passphrase", "right passphrase");
    await screen.press("Unlock");
    await screen.gone("The keys are locked");
  });

  it("move to another place", async () => {
    await open();
    await screen.press("Keep them somewhere else");
    await screen.press("Move the keys");
    await screen.shows("Only in memory");
    expect(sent("PUT", "/v1/settings/keys")).toEqual([{ store: "run" }]);
  });

  it("in a server's file stay where the configuration says", async () => {
    store = "file";
    await open();
    await screen.shows("/etc/keys.toml");
    expect(screen.named("Keep them somewhere else")).toEqual([]);
  });
});

describe("models", () => {
  it("show what is not known as unknown, and a price of nothing as nothing", async () => {
    await open();
    const rows = await screen.until(() => {
      const all = [...screen.host.querySelectorAll(".model-rows > li")];
      return all.length === 2 && all.map((one) => one.textContent ?? "");
    });
    expect(rows[0]).toContain("Context windowunknownPriceunknown");
    expect(rows[0]).not.toContain("$");
    expect(rows[1]).toContain("32,768 tokens, set by you");
    expect(rows[1]).toContain("$0.00 in, $1.50 out, for a million tokens, from the table");
  });

  it("take a context window and prices from the person, and give them back", async () => {
    await open();
    await screen.press("Change Alpha");
    await screen.enter("Context window, in tokens", "12,5");
    await screen.press("Save");
    await screen.shows("Write numbers in digits");
    await screen.enter("Context window, in tokens", "8192");
    await screen.enter("Input, US dollars for a million tokens", "0.25");
    await screen.press("Save");
    await screen.shows("needs both input and output");
    await screen.enter("Output, US dollars for a million tokens", "2");
    await screen.press("Save");
    await screen.until(() => sent("PUT", "/v1/models/pricing")[0]);
    expect(sent("PUT", "/v1/models/context")).toEqual([{ ref: "c_one/a", contextWindow: 8192 }]);
    expect(sent("PUT", "/v1/models/pricing")).toEqual([{ ref: "c_one/a", pricing: { input: 0.25, output: 2 } }]);
    await screen.press("Change Beta");
    await screen.press("Reset the context window");
    await screen.until(() => sent("PUT", "/v1/models/context")[1]);
    expect(sent("PUT", "/v1/models/context")[1]).toEqual({ ref: "c_one/b", contextWindow: null });
  });

  it("can be searched when they are many", async () => {
    models = Array.from({ length: 40 }, (_, n) => ({
      ref: `c_one/m${n}`,
      modelId: `m${n}`,
      label: `Model ${n}`,
      connectionName: "Kitchen",
    }));
    await open();
    await screen.enter("Search models", "model 17");
    await screen.shows("1 model fits.");
    const listed = () =>
      [...screen.host.querySelectorAll(".defaults .model-pick option")].map((one) => one.textContent);
    expect(listed()).toContain("Model 17");
    expect(listed()).not.toContain("Model 18");
  });

  it("think as much as the person says", async () => {
    await open();
    await screen.enter("Thinking", "high");
    await screen.until(() => sent("PUT", "/v1/settings")[0]);
    expect(sent("PUT", "/v1/settings")).toEqual([{ reasoning: "high" }]);
  });

  it("are left to an app one by one", async () => {
    await open();
    await screen.shows("Talk: all models");
    await screen.press("Only these:");
    await screen.shows("With nothing chosen");
    await screen.press("Beta");
    await screen.press("Save for Talk");
    await screen.shows("Talk: 1 connection or model");
    expect(sent("PUT", "/v1/settings/app-models/chat")).toEqual([{ models: ["c_one/b"] }]);
  });
});
