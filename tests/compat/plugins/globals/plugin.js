// Contract 3.5: what is there and what is not.
import fs, { readFileSync } from "node:fs";
import * as everything from "node:fs";
import { spawn, exec } from "node:child_process";
const thrown = (what) => { try { what(); return null } catch (e) { return String(e.message ?? e) } };
export function handleRoute(req, host) {
  if (req.path !== "/rule") return;
  const absent = ["fetch", "WebSocket", "XMLHttpRequest", "importScripts", "require", "navigator", "window", "self", "document", "Deno", "Bun", "std", "os"];
  const there = ["TextDecoder", "TextEncoder", "URL", "URLSearchParams", "atob", "btoa", "structuredClone", "setTimeout", "Buffer", "Promise", "Map"];
  const types = (names) => Object.fromEntries(names.map((name) => [name, typeof globalThis[name]]));
  return {
    json: {
      absent: types(absent),
      there: types(there),
      console: ["log", "info", "warn", "error", "debug"].map((name) => typeof console[name]),
      process: { type: typeof process, env: Object.keys(process.env), exit: thrown(() => process.exit(0)), keys: Object.keys(process).sort() },
      buffer: [Buffer.from("hé").toString("base64"), Buffer.from("aGk=", "base64").toString(), Buffer.isBuffer(Buffer.from("x")), thrown(() => Buffer("x"))],
      fs: [thrown(() => readFileSync("/etc/passwd")), thrown(() => fs.writeFileSync("/tmp/x", "y")), thrown(() => everything.readdirSync("/"))],
      child: [thrown(() => spawn("id")), thrown(() => exec("id"))],
      random: [crypto.randomUUID().length, crypto.getRandomValues(new Uint8Array(4)).length],
      made: new Function("a", "return a + 1")(1),
      url: new URL("/b?c=1#d", "https://a.example/x").href,
      text: new TextDecoder().decode(new TextEncoder().encode("ü")),
      base64: [btoa("hi"), atob("aGk=")],
      clone: structuredClone({ a: [1, new Date(0)] }).a[1].getTime(),
    },
  };
}
