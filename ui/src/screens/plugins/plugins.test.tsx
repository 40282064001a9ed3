// @vitest-environment happy-dom
import { act } from "react";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type Answers, Screen } from "../../test-kit";

// The Plugins dialog on a made-up engine: what is sent is what was shown and chosen, and nothing more.

const ask = (capability: string, state: string, more: object = {}) => ({
  capability,
  sentence: `may ${capability}`,
  state,
  hosts: [],
  ...more,
});
const plugin = (id: string, permissions: object[], more: object = {}) => ({
  id,
  globalId: `chat__${id}`,
  name: `The ${id}`,
  hash: `${id}-hash`,
  enabled: true,
  permissions,
  lastErrors: [],
  changed: false,
  secrets: [],
  ...more,
});

let plugins: object[];
let usage: object | undefined;
let special: Answers;
let screen: Screen;

beforeEach(() => {
  plugins = [];
  usage = undefined;
  special = () => undefined;
  screen = new Screen((asked) => {
    const own = special(asked);
    if (own !== undefined) return own;
    if (asked.method !== "GET") return {};
    return asked.path === "/v1/apps/chat/plugins" ? { plugins, usage } : undefined;
  });
});
afterEach(() => screen.end());

async function open() {
  await screen.show("#/");
  await screen.press("Plugins: 1 waits for you: Talk");
  await screen.shows("Plugins of Talk");
}
const ticked = (sentence: string) => screen.named<HTMLInputElement>(`Allow this: ${sentence}`)[0]?.checked;

describe("permissions", () => {
  it("ticks what is asked for, leaves what was refused, and sends what stays ticked for the hash that was shown", async () => {
    plugins = [
      plugin("notes", [ask("store", "granted"), ask("llm", "asked"), ask("network", "asked"), ask("fs", "denied")]),
    ];
    await open();
    await screen.shows("Allow 2 things");
    expect([ticked("may llm"), ticked("may network"), ticked("may fs"), ticked("may store")]).toEqual([
      true,
      true,
      false,
      undefined,
    ]);
    await screen.press("Allow this: may network");
    await screen.press("Allow 1 thing");
    expect(screen.asked).toMatchObject([
      {
        method: "POST",
        path: "/v1/plugins/chat__notes/approve",
        body: { head: "notes-hash", capabilities: ["store", "llm"] },
      },
    ]);
  });

  it("refuses everything that is asked for and keeps what was allowed", async () => {
    plugins = [plugin("notes", [ask("store", "granted"), ask("llm", "stale")])];
    await open();
    await screen.press("Refuse all of it");
    expect(screen.asked[0]?.body).toEqual({ head: "notes-hash", capabilities: ["store"] });
  });

  it("says that the files changed meanwhile, and forgets the ticks for the old ones", async () => {
    plugins = [plugin("notes", [ask("llm", "asked"), ask("fs", "denied")])];
    special = ({ path }) =>
      path.endsWith("/approve") ? Response.json({ error: "changed", code: "changed" }, { status: 409 }) : undefined;
    await open();
    await screen.press("Allow this: may fs");
    plugins = [plugin("notes", [ask("llm", "asked"), ask("fs", "denied")], { hash: "another" })];
    await screen.press("Allow 2 things");
    await screen.shows("Nothing was allowed; look at it again.");
    await screen.shows("another");
    expect(ticked("may fs")).toBe(false);
  });

  it("takes back one, and allows a refused one by itself when nothing waits", async () => {
    plugins = [plugin("notes", [ask("store", "granted"), ask("llm", "granted"), ask("fs", "denied")])];
    await open();
    await screen.press("Take back: may llm");
    await screen.press("Allow: may fs");
    expect(screen.asked).toMatchObject([
      { path: "/v1/plugins/chat__notes/revoke", body: { capability: "llm" } },
      { path: "/v1/plugins/chat__notes/approve", body: { capabilities: ["store", "llm", "fs"] } },
    ]);
  });

  it("offers nothing where config.toml forbids, and says why", async () => {
    plugins = [plugin("notes", [ask("zip", "asked", { policy: "zip is denied for all plugins" })])];
    await open();
    await screen.shows("Not possible here");
    await screen.shows("zip is denied for all plugins");
    expect(screen.named("Allow this: may zip")).toEqual([]);
    expect(screen.named("Allow: may zip")).toEqual([]);
    expect(screen.text()).not.toContain("Allow 1 thing");
  });

  it("offers nothing to take back where config.toml forbids what was allowed before", async () => {
    const forbidden = { policy: "zip is denied for all plugins" };
    plugins = [plugin("notes", [ask("zip", "granted", forbidden), ask("fs", "granted")])];
    await open();
    await screen.shows("Not possible here");
    expect(screen.named("Take back: may fs")).toHaveLength(1);
    expect(screen.named("Take back: may zip")).toEqual([]);
    expect(screen.named("Take everything back")).toEqual([]);
  });

  it("says the size of a store in words", async () => {
    plugins = [plugin("notes", [ask("store", "asked", { hosts: ["quota:9000000"] })])];
    await open();
    await screen.shows("up to 8.6\u00a0MiB");
    await screen.shows("store: 9,000,000 bytes");
    expect(screen.text()).not.toContain("quota:");
    expect(screen.text()).not.toContain("Only these:");
  });

  it("names the hosts, points out the own network and quotes the author", async () => {
    plugins = [
      plugin("notes", [
        ask("network", "asked", { hosts: ["api.example.com"], reason: "for the weather" }),
        ask("local-network", "asked", { hosts: ["localhost:8188"], local: true }),
      ]),
    ];
    await open();
    await screen.shows("api.example.com");
    await screen.shows("On this machine or in your home network: localhost:8188");
    expect(screen.host.querySelector("q")?.textContent).toBe("for the weather");
  });
});

describe("a plugin", () => {
  it("that changed stands on top, and stays there when it was answered", async () => {
    const first = plugin("first", [ask("llm", "granted")]);
    plugins = [first, plugin("second", [ask("llm", "stale")], { changed: true })];
    const order = () => [...screen.host.querySelectorAll(".plugin")].map((one) => one.getAttribute("aria-label"));
    await open();
    await screen.shows("Changed since you allowed it");
    expect(order()).toEqual(["The second", "The first"]);
    plugins = [first, plugin("second", [ask("llm", "granted")])];
    await screen.press("Allow 1 thing");
    await screen.gone("Changed since you allowed it");
    expect(order()).toEqual(["The second", "The first"]);
  });

  it("is turned off and on", async () => {
    plugins = [plugin("notes", [])];
    await open();
    await screen.press("Run The notes");
    plugins = [plugin("notes", [], { enabled: false })];
    await screen.tell("apps_changed");
    await screen.shows("It does not run, whatever it may do.");
    await screen.press("Run The notes");
    expect(screen.asked.map((asked) => asked.path)).toEqual([
      "/v1/apps/chat/plugins/notes/disable",
      "/v1/apps/chat/plugins/notes/enable",
    ]);
  });

  it("is removed after a question", async () => {
    plugins = [plugin("notes", [])];
    await open();
    await screen.press("Remove this plugin");
    await screen.press("Keep it");
    await screen.press("Remove this plugin");
    expect(screen.asked).toEqual([]);
    await screen.press("Remove The notes");
    expect(screen.asked).toMatchObject([{ method: "DELETE", path: "/v1/apps/chat/plugins/notes" }]);
  });

  it("shows its last errors as they were", async () => {
    plugins = [
      plugin("notes", [], {
        lastErrors: [{ at: 1e12, target: "onTick", detail: "TypeError: x\n    at plugin.js:3:9" }],
      }),
    ];
    await open();
    await screen.press("Last error");
    await screen.shows("plugin.js:3:9");
  });
});

describe("a difference", () => {
  const line = (kind: string, text: string) => ({ kind, text });

  it("is shown when asked for, with what cannot be seen written out", async () => {
    plugins = [plugin("notes", [ask("llm", "stale")], { changed: true })];
    special = ({ path }) =>
      path === "/v1/apps/chat/plugins/notes/difference"
        ? {
            before: "a",
            after: "b",
            files: [
              {
                path: "plugin.js",
                cut: true,
                lines: [
                  line(" ", "same"),
                  line("-", "old()"),
                  line("+", "\u202eneu\u200b(\u3164\ufe00)\t\u00a0;"),
                  line("…", ""),
                  line("+", `x${"\ufe01".repeat(5000)}y${"z".repeat(25_000)}`),
                ],
              },
              { path: "manifest.json", cut: false, lines: [] },
            ],
          }
        : undefined;
    await open();
    await screen.press("Show what changed");
    await screen.shows("1 file: 2 lines added, 1 line removed");
    await screen.shows("removed: old()");
    await screen.shows("added: U+202EneuU+200B(U+3164 U+FE00)\tU+00A0;Unchanged lines");
    await screen.shows("U+FE01 and 4988 more");
    await screen.shows("… and 10002 more characters on this line");
    await screen.shows("Not all of it is shown");
    expect(screen.text()).not.toContain("manifest.json");
  });

  it("is drawn in pieces when it is long", async () => {
    plugins = [plugin("notes", [ask("llm", "stale")], { changed: true })];
    const lines = Array.from({ length: 700 }, (_, at) => line("+", `line ${at};`));
    special = ({ path }) =>
      path.endsWith("/difference") ? { before: null, after: "b", files: [{ path: "plugin.js", lines }] } : undefined;
    await open();
    await screen.press("Show what changed");
    await screen.shows("What you allowed before was not kept");
    await screen.shows("line 599;");
    expect(screen.text()).not.toContain("line 600;");
    await screen.press("Show 100 more lines");
    await screen.shows("line 699;");
  });
});

describe("secrets", () => {
  const secret = { name: "key", origin: "https://api.example.com", reason: "to sign in" };

  it("are sent with the origin that was shown, and do not stay in the page", async () => {
    plugins = [plugin("notes", [], { secrets: [{ ...secret, saved: false }] })];
    await open();
    await screen.shows("https://api.example.com");
    await screen.enter("Value of key", "s3cret-value");
    plugins = [plugin("notes", [], { secrets: [{ ...secret, saved: true }] })];
    await screen.press("Save key");
    await screen.shows("Saved");
    expect(screen.asked).toMatchObject([
      {
        method: "PUT",
        path: "/v1/plugins/chat__notes/secrets/key",
        body: { value: "s3cret-value", origin: "https://api.example.com" },
      },
    ]);
    await screen.press("Replace key");
    const fields = [...screen.host.querySelectorAll("input")].map((field) => field.value);
    expect(fields.join()).not.toContain("s3cret");
    expect(screen.named<HTMLInputElement>("Value of key")[0]?.value).toBe("");
    await screen.press("Cancel");
    await screen.press("Forget key");
    expect(screen.asked.at(-1)).toMatchObject({ method: "DELETE", path: "/v1/plugins/chat__notes/secrets/key" });
  });

  it("that are lost are asked for again", async () => {
    plugins = [plugin("notes", [], { secrets: [{ ...secret, saved: false, lost: true }] })];
    await open();
    await screen.shows("the keychain no longer has it. Enter it again.");
    expect(screen.text()).not.toContain("Saved");
    await screen.enter("Value of key", "again");
    plugins = [plugin("notes", [], { secrets: [{ ...secret, saved: true }] })];
    await screen.press("Save key");
    await screen.shows("Saved");
    expect(screen.asked).toMatchObject([{ method: "PUT", body: { value: "again" } }]);
  });

  it("that were typed for one origin are not sent to another", async () => {
    plugins = [plugin("notes", [], { secrets: [{ ...secret, saved: false }] })];
    await open();
    await screen.enter("Value of key", "s3cret-value");
    plugins = [plugin("notes", [], { secrets: [{ ...secret, origin: "https://evil.example", saved: false }] })];
    await screen.tell("apps_changed");
    await screen.shows("https://evil.example");
    expect(screen.named<HTMLInputElement>("Value of key")[0]?.value).toBe("");
  });
});

describe("budgets", () => {
  beforeEach(() => {
    plugins = [plugin("notes", [])];
    usage = {
      day: "2026-11-30",
      modelCalls: { used: 3, limit: 10 },
      tokens: { used: 700, limit: 700 },
      networkBytes: { used: 1_572_864, limit: null },
      diskBytes: { used: 0, limit: 2_147_483_648 },
    };
  });

  it("are shown in words, and as meters where there is a limit", async () => {
    await open();
    await screen.shows("3 of 10");
    await screen.shows("700 of 700, used up");
    await screen.shows("1.5\u00a0MiB, no limit");
    await screen.shows("0 bytes of 2\u00a0GiB");
    await screen.shows("Tokens: used up");
    const meters = [...screen.host.querySelectorAll("meter")].map((meter) => meter.getAttribute("value"));
    expect(meters).toEqual(["0.3", "1", "0"]);
  });

  it("are changed in the units that are shown; what is no number changes nothing", async () => {
    await open();
    await screen.press("Change limits");
    expect(screen.named<HTMLInputElement>("Disk, in MiB")[0]?.value).toBe("2048");
    await screen.enter("Tokens a day", "1,500");
    await screen.press("Save limits");
    await screen.shows("A limit is written in digits");
    expect(screen.asked).toEqual([]);
    await screen.enter("Tokens a day", "");
    await screen.enter("Network a day, in MiB", "0.5");
    await screen.press("Save limits");
    expect(screen.asked).toMatchObject([
      {
        method: "PUT",
        path: "/v1/budgets/chat",
        body: { modelCalls: 10, tokens: null, networkBytes: 524_288, diskBytes: 2_147_483_648 },
      },
    ]);
    await screen.gone("Save limits");
  });
});

describe("an app that was opened", () => {
  const stale = plugin("notes", [ask("llm", "stale")], { changed: true });
  let waiting: number;

  beforeEach(() => {
    waiting = 0;
    plugins = [plugin("notes", [ask("llm", "granted")])];
    const app = () => ({ id: "chat", name: "Talk", plugins: 1, waiting });
    special = ({ path }) =>
      path === "/v1/launch"
        ? { apps: [app()], broken: [], box: [], engine: { version: "1" } }
        : path.endsWith("/difference")
          ? { before: "a", after: "b", files: [{ path: "plugin.js", lines: [{ kind: "+", text: "fresh();" }] }] }
          : undefined;
  });

  it("leads from the launcher to what changed, and the hint goes when it was answered", async () => {
    await screen.show("#/");
    waiting = 1;
    plugins = [plugin("calm", []), stale];
    await screen.tell("apps_changed");
    await screen.shows("Plugins: 1 waits for you");
    expect(screen.text()).not.toContain("changed since you allowed it");
    await screen.press("Open Talk");
    await screen.shows("Talk: The code of plugin The notes changed since you allowed it.");
    await screen.press("Look at what changed: The notes");
    await screen.shows("Plugins of Talk");
    await screen.shows("fresh();");
    waiting = 0;
    await screen.press("Allow 1 thing");
    await screen.gone("Talk: The code of plugin");
  });

  it("is looked at again by itself, and when the person comes back: files that changed are not told of", async () => {
    await screen.show("#/");
    await screen.press("Open Talk");
    waiting = 1;
    plugins = [stale];
    await screen.shows("The code of plugin The notes changed since you allowed it.");
    waiting = 0;
    await act(async () => dispatchEvent(new Event("focus")));
    await screen.gone("The code of plugin");
  });

  it("says so too when something is asked for the first time", async () => {
    waiting = 1;
    plugins = [plugin("notes", [ask("llm", "asked")])];
    await screen.show("#/");
    await screen.press("Open Talk");
    await screen.shows("Plugin The notes waits for your answer.");
    await screen.press("Look at what it asks for: The notes");
    await screen.shows("Allow 1 thing");
  });
});

it("plugins that belong to no app are found below the apps", async () => {
  special = ({ path }) => (path === "/v1/apps/_/plugins" ? { plugins: [plugin("loose", [])] } : undefined);
  await screen.show("#/");
  await screen.shows("1 plugin belongs to no app.");
  await screen.press("Look at them");
  await screen.shows("Plugins that belong to no app");
  await screen.shows("The loose");
});
