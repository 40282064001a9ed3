// A worker from the app's own files: the address to call comes in its own.
const to = new URL(self.location.href).searchParams.get("to");
fetch(to).catch(() => {});
if ("importScripts" in self) importScripts(to);
