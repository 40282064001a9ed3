import { createElement } from "react"; import { createRoot } from "react-dom/client"; createRoot(document.getElementById("root") as HTMLElement).render(createElement("p", null, "Chrysalis"));
