import { describe, expect, it } from "vitest";
import type { ActivityEntry } from "../../api-activity";
import { byTrace, isStep, lookedAround, merge, type Step, treeOf } from "./tree";

const entry = (id: number, chain: string, more: Partial<ActivityEntry> = {}): ActivityEntry => ({
  id: String(id),
  at: id,
  kind: "connection",
  caller: chain.split(" > ").at(-1) ?? "",
  chain,
  trace: "t",
  app: "",
  target: "",
  outcome: "done",
  status: null,
  bytesSent: null,
  bytesReceived: null,
  ms: null,
  detail: "",
  model: "",
  tokensIn: null,
  tokensOut: null,
  cost: null,
  ...more,
});

/** A tree as text: `who(items)`. */
const drawn = (steps: Step[]): string =>
  steps
    .map((step) => `${step.who.join("/")}(${step.items.map((i) => (isStep(i) ? drawn([i]) : i.id)).join(" ")})`)
    .join(" ");

describe("the tree of a call", () => {
  it.each([
    ["one who hands on to one is one line", [entry(1, "owner > app:a > plugin:a/p")], "owner/app:a/plugin:a/p(1)"],
    [
      "what happened first stands first, also among those who were called",
      [entry(4, "o > p"), entry(3, "o > p > q"), entry(2, "o > p"), entry(1, "o")],
      "o(1 p(2 q(3) 4))",
    ],
    ["two who were called by one stand below it", [entry(2, "o > b"), entry(1, "o > a")], "o(a(1) b(2))"],
    ["who stands in no chain is put at its end", [entry(1, "o", { caller: "x" })], "o/x(1)"],
    ["who called stays before who was called", [entry(1, "o > p > q", { caller: "p" })], "o/p/q(1)"],
    ["who did something on the way keeps a line of its own", [entry(2, "o > p > q"), entry(1, "o > p")], "o/p(1 q(2))"],
    ["nobody knows who", [entry(1, "", { caller: "" })], "(1)"],
  ])("%s", (_, entries, tree) => expect(drawn(treeOf(entries))).toBe(tree));

  it("does not grow with a chain that has no end", () => {
    const long = Array.from({ length: 5000 }, (_, at) => `p${at}`).join(" > ");
    expect(treeOf([entry(1, long)])[0]?.who).toHaveLength(12);
  });
});

it("entries are gathered by call, the newest first, and those of no call stay alone", () => {
  const traces = byTrace([
    entry(5, "o", { trace: "b" }),
    entry(4, "o", { trace: "" }),
    entry(3, "o", { trace: "a" }),
    entry(2, "o", { trace: "b" }),
    entry(1, "o", { trace: "" }),
  ]);
  expect(traces.map((one) => one.entries.map((e) => e.id))).toEqual([["5", "2"], ["4"], ["3"], ["1"]]);
});

describe("looking for model servers", () => {
  const asked = (port: number, more: Partial<ActivityEntry> = {}) =>
    entry(port, "owner", { target: `GET http://127.0.0.1:${port}/v1/models`, outcome: "failed", ...more });
  const ports = [1, 2, 3, 4, 5].map((port) => asked(port));

  it.each([
    ["many ports", ports, { asked: 5, answered: 0 }],
    [
      "few ports, of which one says so",
      [asked(1), asked(2, { detail: "probe", status: 200 })],
      { asked: 2, answered: 1 },
    ],
    ["one port twice is one", [asked(1, { detail: "probe" }), asked(1)], { asked: 1, answered: 0 }],
    ["few ports are somebody's connections", ports.slice(0, 4), null],
    ["an app does not look around", ports.map((one) => ({ ...one, app: "a" })), null],
    ["another machine", [...ports, asked(6, { target: "GET http://10.0.0.1:6/v1/models" })], null],
    ["something else came of it", [...ports, asked(6, { kind: "refusal" })], null],
  ])("%s", (_, entries, want) => expect(lookedAround(entries)).toEqual(want));
});

describe("reading again", () => {
  const ids = (entries: readonly ActivityEntry[]) => entries.map((e) => e.id).join(" ");
  const list = (...numbers: number[]) => numbers.map((n) => entry(n, "o"));

  it("keeps what did not change as the same objects, and the same list when nothing did", () => {
    const shown = list(5, 4, 3, 2);
    expect(merge(shown, list(5, 4), 2)).toBe(shown);
    const ended = merge(shown, [entry(6, "o"), entry(5, "o", { outcome: "failed" }), entry(4, "o")], 3);
    expect(ids(ended)).toBe("6 5 4 3 2");
    expect(ended[1]?.outcome).toBe("failed");
    expect(ended[2]).toBe(shown[1]);
    expect(ended[3]).toBe(shown[2]);
  });

  it("drops what no longer fits the filter", () => {
    expect(ids(merge(list(5, 4, 3, 2), list(5, 3), 2))).toBe("5 3 2");
    expect(ids(merge(list(5, 4, 3), list(5), 10))).toBe("5");
    expect(ids(merge(list(5, 4), [], 10))).toBe("");
  });

  it("begins anew rather than with a hole", () => {
    expect(ids(merge(list(3, 2, 1), list(9, 8), 2))).toBe("9 8");
    expect(ids(merge(list(3, 2, 1), list(5, 4, 3), 3))).toBe("5 4 3 2 1");
  });
});
