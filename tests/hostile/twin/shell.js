// A launcher that takes no precautions, so that every attempt can be seen to work: it keeps its secrets where pages of
// its origin find them, and does for anyone what a message asks.

localStorage.setItem("launcher", "secret");
sessionStorage.setItem("launcher", "secret");
document.cookie = "owner=1; path=/";
indexedDB.open("launcher", 1);
caches.open("launcher");

async function serve(message, answer) {
  const response = await fetch(message.url);
  answer({ t: "head", id: message.id, status: response.status });
}

addEventListener("message", (event) => {
  const { data, source } = event;
  if (data?.t === "hello") {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = ({ data: message }) => serve(message, (answer) => port1.postMessage(answer));
    source.postMessage({ chrysalis: 1, t: "init", doc: data.doc }, "*", [port2]);
  }
  if (data?.t === "fetch") serve(data, (answer) => source.postMessage(answer, "*"));
});

addEventListener("DOMContentLoaded", () => {
  const frame = document.createElement("iframe");
  frame.className = "page";
  frame.allow = "camera; microphone; geolocation; clipboard-read";
  frame.src = `/app/index.html${location.search}`;
  document.body.append(frame);
});
