// The CPU programs in quickjs-emscripten. Prints `bench PREFIX_cpu_NAME_ms NUMBER` lines: medians of five runs of `main`,
// without loading. `cpu.mjs PREFIX`; runs on Node and on Bun.
import { readFileSync } from "node:fs";
import { getQuickJS } from "quickjs-emscripten";

const [prefix] = process.argv.slice(2);
const QuickJS = await getQuickJS();

for (const name of ["richards", "nbody", "strings", "text", "objects"]) {
  const source = readFileSync(new URL(`./programs/${name}.js`, import.meta.url), "utf8");
  const runtime = QuickJS.newRuntime();
  runtime.setMemoryLimit(64 << 20);
  const context = runtime.newContext();
  const module = context.unwrapResult(context.evalCode(source, `${name}.js`, { type: "module" }));
  const main = context.getProp(module, "main");
  const times = [];
  for (let n = 0; n < 5; n++) {
    const began = performance.now();
    context.unwrapResult(context.callFunction(main, context.undefined)).dispose();
    times.push(performance.now() - began);
  }
  times.sort((a, b) => a - b);
  console.log(`bench ${prefix}_cpu_${name}_ms ${times[2].toFixed(2)}`);
  for (const handle of [main, module, context, runtime]) handle.dispose();
}
