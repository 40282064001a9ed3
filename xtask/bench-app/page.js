// Measures in the page itself: when the tokens of a stream arrive here, by this page's clock.
const own = "/v1/apps/bench";

async function ask(prompt, chatId) {
  const response = await fetch(`${own}/ask`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ prompt, chatId }),
  });
  if (!response.ok) throw new Error(`${prompt}: ${response.status} ${await response.text()}`);
}

/** Follows the stream, which may not have begun yet, and calls `arrived` with each piece of text. */
async function follow(chatId, arrived) {
  for (let tries = 0; tries < 200; tries++) {
    const response = await fetch(`${own}/__streams/${chatId}`);
    if (response.ok) {
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        const lines = (rest + value).split("\n");
        rest = lines.pop();
        for (const line of lines) {
          if (!line.startsWith("data:")) continue;
          const part = JSON.parse(line.slice(5));
          if (part.delta) arrived(part.delta);
          if (part.done) return;
        }
      }
    }
    await response.body?.cancel();
    await new Promise((go) => setTimeout(go, 20));
  }
  throw new Error(`no stream ${chatId}`);
}

async function speed() {
  let first = 0;
  let last = 0;
  let characters = 0;
  let early = 0;
  const asked = ask("SPEED", "speed");
  await follow("speed", (text) => {
    last = performance.now();
    characters += text.length;
    // What came with the first piece came before the clock ran.
    if (!first) {
      first = last;
      early = text.length;
    }
  });
  await asked;
  // Every token of the bench is four characters long.
  return (characters - early) / 4 / ((last - first) / 1000);
}

async function latency() {
  const late = [];
  let rest = "";
  const asked = ask("LATENCY", "latency");
  await follow("latency", (text) => {
    const now = performance.timeOrigin + performance.now();
    const stamps = (rest + text).split(" ");
    rest = stamps.pop();
    for (const stamp of stamps) late.push(now - Number(stamp));
  });
  await asked;
  // The first tokens wait for the stream to be found by this page.
  const settled = late.slice(20).sort((a, b) => a - b);
  return settled[Math.min(settled.length - 1, Math.floor(settled.length * 0.99))];
}

try {
  const tokens = await speed();
  const p99 = await latency();
  await ask(`REPORT tokens_per_s ${tokens} token_latency_p99_ms ${p99} END`);
  document.getElementById("state").textContent = "done";
} catch (error) {
  document.getElementById("state").textContent = String(error);
  await ask(`REPORT failed ${String(error).replace(/[^ \w.:/-]/g, "?")} END`);
}
