// Contract 3.2: `{status = 200, json | text, contentType?}`.
export function handleRoute(req) {
  switch (req.path) {
    case "/json": return { json: { a: [1, null, "ü"] } };
    case "/text": return { text: "plain ü" };
    case "/status": return { status: 201 };
    case "/both": return { status: 418, text: "short and stout", contentType: "text/x-teapot" };
    case "/json-null": return { json: null };
    case "/json-typed": return { json: [1], contentType: "application/ld+json" };
    case "/text-empty": return { text: "" };
    case "/error": return { status: 503, json: { error: "later" } };
    case "/rule": return { json: { answered: req.method } };
  }
}
