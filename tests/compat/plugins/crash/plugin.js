// Contract 3.3: a route that crashes is a 500 with an error that names the plugin.
export function handleRoute(req, host) {
  switch (req.path) {
    case "/throw": throw new TypeError("on purpose");
    case "/throw-text": throw "only words";
    case "/reject": return Promise.reject(new Error("later"));
    case "/status": return { status: 99 };
    case "/third":
      if (host.llm.results.b) throw new Error("in the third pass");
      host.llm.request(host.llm.results.a ? "b" : "a", { messages: [{ role: "user", content: "x" }] });
      return { __llmPending: true };
    case "/rule": return { json: "fine" };
  }
}
