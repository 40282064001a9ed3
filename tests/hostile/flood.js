// Sends without end, by window messages, over a port got from the shell, or by requests through the bridge; or computes
// without end, which must cost nobody else anything.

const big = "x".repeat(1000);

/** Bursts for ever: messages of one task leave when it ends. */
function flood(send) {
  const burst = () => {
    for (let i = 0; i < 5000; i++) send();
    setTimeout(burst);
  };
  burst();
}

const WAYS = {
  window: () => flood(() => parent.postMessage({ chrysalis: 1, t: "hello", doc: String(Math.random()), big }, "*")),
  port: () => {
    addEventListener("message", ({ ports: [to] }) => {
      if (to) flood(() => to.postMessage({ t: "storage", which: "local", op: "set", key: "k", value: big }));
    });
    parent.postMessage({ chrysalis: 1, t: "hello", doc: "flood" }, "*");
  },
  fetch: () => flood(() => fetch("/v1/models").catch(() => {})),
  loop: () => {
    for (;;) parent.postMessage({ chrysalis: 1, t: "hello", doc: big }, "*");
  },
};
WAYS[WAY]();
