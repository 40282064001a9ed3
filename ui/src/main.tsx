import { createRoot } from "react-dom/client";
import { api } from "./api";
import { App, loadSession } from "./app";
import { connect } from "./backend";
import { language } from "./i18n";
import { takeSetupToken } from "./route";
import "./style.css";
import "./screens.css";
import { showKeptTheme } from "./theme";

// The token leaves the address bar before anything else runs.
const setupToken = takeSetupToken();
showKeptTheme();
document.documentElement.lang = language;

void connect().then((backend) => {
  const first = loadSession(api(backend));
  // The screen reports it; here it only must not count as unhandled.
  first.catch(() => undefined);
  const root = document.getElementById("root");
  if (root) createRoot(root).render(<App backend={backend} setupToken={setupToken} first={first} />);
});
