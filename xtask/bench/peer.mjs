// The same routes in @sebastianwessel/quickjs: for each call a fresh sandbox that loads the plugin's module, as engines
// built on that package do. Prints `bench NAME NUMBER` lines: medians in microseconds.
// `peer.mjs PREFIX LARGE`; the packages are beside this file. Runs on Node and on Bun.
import { readFileSync } from "node:fs";
import variant from "@jitl/quickjs-ng-wasmfile-release-sync";
import { loadQuickJs } from "@sebastianwessel/quickjs";

const [prefix, large] = process.argv.slice(2);
const program = (name) => readFileSync(new URL(`./programs/${name}.js`, import.meta.url), "utf8");
const { runSandboxed } = await loadQuickJs(variant);

const CALL = `
import { handleRoute } from "./plugin.js";
export default JSON.stringify((await handleRoute(JSON.parse(env.request), {})) ?? null);
`;

async function ask(source, request) {
  const options = {
    allowFetch: false,
    allowFs: false,
    memoryLimit: 64 << 20,
    executionTimeout: 10_000,
    mountFs: { src: { "plugin.js": source } },
    // A string, whose way into the sandbox is the fastest that there is.
    env: { request: JSON.stringify(request) },
  };
  const result = await runSandboxed(({ evalCode }) => evalCode(CALL), options);
  if (!result.ok) throw new Error(`${result.error.name}: ${result.error.message}`);
  const answer = JSON.parse(result.data);
  if (answer?.json === undefined) throw new Error(`no answer: ${result.data}`);
  return JSON.stringify(answer.json);
}

async function measure(name, source, request, calls) {
  const times = [];
  const before = Math.min(10, calls);
  for (let n = 0; n < calls + before; n++) {
    const began = performance.now();
    await ask(source, request);
    if (n >= before) times.push((performance.now() - began) * 1000);
  }
  times.sort((a, b) => a - b);
  console.log(`bench ${prefix}_${name} ${times[times.length >> 1].toFixed(1)}`);
}

// As in the program that measures ours, src-tauri/crates/apps/examples/bench.rs.
const records = (bytes) =>
  Array.from({ length: Math.ceil(bytes / 64) }, (_, n) => ({ id: n, name: `person ${n}`, tags: ["a", "b"], score: n / 4 }));

const get = { method: "GET", path: "/items/1", query: {}, body: null };
const post = (body) => ({ method: "POST", path: "/", query: {}, body });
await measure("route_us", program("trivial"), get, 100);
await measure("route_200k_us", readFileSync(large, "utf8"), get, 40);
await measure("json_1k_us", program("json"), post(records(1 << 10)), 100);
await measure("json_1m_us", program("json"), post(records(1 << 20)), 8);
process.exit(0);
