// The page's half of its way out: `window.ipc.postMessage(text)`, heard by relay.js.
(() => {
  const dispatch = document.dispatchEvent.bind(document);
  const Event = CustomEvent;
  const postMessage = (text) => {
    dispatch(new Event("chrysalis-ipc", { detail: `${text}` }));
  };
  Object.defineProperty(window, "ipc", { value: Object.freeze({ postMessage }) });
})();
