import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const read = (path: string) => readFileSync(new URL(path, import.meta.url), "utf8");

/** The messages in a table of docs/apps.md: the first word of each code span in the first column. */
function documented(heading: string): string[] {
  const table = read("../../../docs/apps.md").split(`| ${heading} | |\n`)[1]?.split("\n\n")[0] ?? "";
  const names = [...table.matchAll(/^\| (.*?) \|[^|]*\|$/gm)].flatMap((row) =>
    [...(row[1] as string).matchAll(/`([a-z-]+)/g)].map((span) => span[1] as string),
  );
  return [...new Set(names)].sort();
}

test("every message that a page can send is in the document, and no other", () => {
  const union = /\bt:((?:\s*\|?\s*"[a-z-]+")+);/.exec(read("../src/wire.ts"))?.[1] ?? "";
  const names = [...union.matchAll(/"([a-z-]+)"/g)].map((found) => found[1]);
  expect(names.length).toBeGreaterThan(10);
  expect(documented("Page to host")).toEqual(names.sort());
});

test("every message that a page understands is in the document, and no other", () => {
  const sources = ["fetch", "sources", "storage", "downloads"].map((name) => read(`../src/${name}.ts`)).join("\n");
  const heard = [...sources.matchAll(/message\.t [!=]== "([a-z-]+)"|exchange\.on\("([a-z-]+)"/g)];
  const names = [...new Set(heard.map((found) => (found[1] ?? found[2]) as string))].sort();
  expect(documented("Host to page")).toEqual(names);
});
