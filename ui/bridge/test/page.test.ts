// @vitest-environment happy-dom
import { beforeEach, describe, expect, test, vi } from "vitest";
import { mapAddress, mapSrcset, mapStyle } from "../src/assets";
import { watchLinks } from "../src/downloads";
import { appPage } from "./fake";

const blobs = new Map<string, Blob>();
const page = appPage(blobs);
watchLinks(window as never, page.exchange, page.fetch, blobs, page.place);

beforeEach(() => {
  page.sent.length = 0;
  document.body.innerHTML = "";
});

function link(attributes: Record<string, string>, inside = "") {
  const a = document.createElement("a");
  for (const name in attributes) a.setAttribute(name, attributes[name] as string);
  a.innerHTML = inside;
  return a;
}

describe("links", () => {
  test.each([
    [{ href: "https://example.com/a?b" }, "https://example.com/a?b"],
    [{ href: "http://example.com", target: "_blank" }, "http://example.com/"],
  ])("%o goes to the host and nowhere else", (attributes, url) => {
    const a = link(attributes, "<b>text</b>");
    document.body.append(a);
    const event = new MouseEvent("click", { bubbles: true, cancelable: true, composed: true });
    a.querySelector("b")?.dispatchEvent(event);
    expect(page.of("link").map((m) => m.url)).toEqual([url]);
    expect(event.defaultPrevented).toBe(true);
  });

  test("a page's own handling goes first, and links inside stay", () => {
    const handled = link({ href: "https://example.com/" });
    handled.addEventListener("click", (event) => event.preventDefault());
    const inside = link({ href: "#there" });
    document.body.append(handled, inside);
    handled.click();
    inside.click();
    expect(page.of("link")).toEqual([]);
  });

  test("window.open asks like a link and opens nothing", () => {
    expect(window.open("https://example.com/")).toBeNull();
    expect(window.open("about:blank")).toBeNull();
    expect(page.of("link").map((m) => m.url)).toEqual(["https://example.com/"]);
  });
});

describe("downloads", () => {
  test("a link in no document, with its blob revoked at once", async () => {
    blobs.set("blob:null/9", new Blob(["file"], { type: "text/csv" }));
    const a = link({ href: "blob:null/9", download: "table.csv" });
    a.click();
    blobs.delete("blob:null/9");
    expect(await page.sentMessage("data")).toMatchObject({ data: btoa("file"), last: true });
    expect(page.of("download")).toMatchObject([{ name: "table.csv", mime: "text/csv", size: 4 }]);
  });

  test("a dispatched click, and a data: address", async () => {
    const a = link({ href: "data:text/plain,hello", download: "" });
    a.dispatchEvent(new MouseEvent("click", { cancelable: true }));
    expect(await page.sentMessage("data")).toMatchObject({ data: btoa("hello"), last: true });
    expect(page.of("download")).toMatchObject([{ name: "download", size: 5 }]);
  });

  test("a large file stops when the person says no", async () => {
    const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
    blobs.set("blob:null/10", new Blob([new Uint8Array(3_000_000)]));
    link({ href: "blob:null/10", download: "big" }).click();
    const offer = await page.sentMessage("download");
    page.deliver({ t: "download-refused", id: offer.id, message: "no" });
    await page.sentMessage("data");
    await new Promise((done) => setTimeout(done, 30));
    expect(page.of("data").length).toBeLessThan(21);
    expect(page.of("data").some((m) => m.last)).toBe(false);
    warn.mockRestore();
  });
});

test("asset addresses under a frame's token", () => {
  const base = "/frame/t";
  expect(mapAddress("/v1/assets/1", base)).toBe("/frame/t/v1/assets/1");
  expect(mapAddress("/v12/x", base)).toBe("/v12/x");
  expect(mapAddress("https://example.com/v1/x", base)).toBe("https://example.com/v1/x");
  expect(mapSrcset("/v1/a 1x, /v1/b 2x,b/v1/c 3x", base)).toBe("/frame/t/v1/a 1x, /frame/t/v1/b 2x,b/v1/c 3x");
  const css = `a{background:url("/v1/a")} b{background:url( /v1/b )} @import '/v1/c'; /* /v1/d */`;
  const mapped = mapStyle(css, base);
  expect(mapped).toBe(
    `a{background:url("/frame/t/v1/a")} b{background:url( /frame/t/v1/b )} @import '/frame/t/v1/c'; /* /v1/d */`,
  );
  expect(mapStyle(mapped, base)).toBe(mapped);
  expect(mapSrcset(mapSrcset("/v1/a", base), base)).toBe("/frame/t/v1/a");
});
