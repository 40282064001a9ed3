// Runs the attempts. Without a query, all that can run beside each other; with `?only=NAME`, one that may end the page.
// What succeeds without a listener hearing it stands in `__won`, which the test reads from outside.

globalThis.__won = [];
globalThis.__errors = [];

const config = globalThis.HOSTILE;
const only = new URLSearchParams(location.search).get("only");
// The address of another app's files, as if its token had leaked: `#other=/frame/TOKEN/`.
const other = new URLSearchParams(location.hash.slice(1)).get("other") ?? "/frame/other/";

function kit(name) {
  return {
    name,
    config,
    launcher: config.launcher,
    other: config.launcher + other,
    url: (ending = "png") => `${config.cross}/hear-${name}/x.${ending}`,
    /** on the same origin as the unprotected twin, for what browsers only load from there */
    near: (ending = "png") => `${config.http}/hear-${name}/x.${ending}`,
    /** a name of its own, which DNS hears, and the name in a TLS greeting */
    secure: () => `https://hear-${name}.canary.test:${config.port}/`,
    named: () => `hear-${name}.canary.test`,
    /** `host:port` where only this attempt can call, for what sends no name */
    own: () => `${config.host}:${config.own[name]}`,
    won: (detail) => globalThis.__won.push(`${name}: ${String(detail).slice(0, 200)}`),
    add(tag, attributes = {}, text = "", parent = document.body) {
      const element = document.createElement(tag);
      for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
      if (text) element.textContent = text;
      parent.append(element);
      return element;
    },
    /** the window of a fresh child that no bridge has touched */
    blank() {
      const frame = document.createElement("iframe");
      document.body.append(frame);
      return frame.contentWindow;
    },
  };
}

function attempt(one) {
  const failed = (error) => globalThis.__errors.push(`${one.name}: ${error}`);
  try {
    Promise.resolve(one.run(kit(one.name))).catch(failed);
  } catch (error) {
    failed(error);
  }
}

const chosen = globalThis.ATTEMPTS.filter((one) => (only ? one.name === only : !one.alone));
for (const one of chosen) attempt(one);
document.getElementById("state")?.replaceChildren(`tried ${chosen.length}`);
