// Written anew by the test, with the addresses of its listeners.
globalThis.HOSTILE = { http: "", cross: "", host: "", own: {}, launcher: "" };
