// Contract 3.4: lines of 500 characters, 200 of them.
export function handleRoute(req, host) {
  if (req.path !== "/rule") return;
  host.log("by", "host", { a: [1] }, "x".repeat(600), "END");
  console.log("by console.log");
  console.warn("by console.warn", new Error("with an error"));
  console.error("by console.error");
  console.info("by console.info");
  console.debug("by console.debug");
  const loop = {};
  loop.self = loop;
  host.log("of a loop", loop, undefined, null, () => 1, Symbol("s"), 10n);
  for (let n = 0; n < 250; n++) console.log(`line ${n}.`);
  return { json: "logged" };
}
