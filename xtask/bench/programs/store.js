// As many puts or gets as it is asked for, in one call.
export function handleRoute(req, host) {
  const { puts, gets } = req.body;
  for (let n = 0; n < puts; n++) host.store.put(`key:${n % 100}`, { n, text: "some words that somebody wrote down" });
  let found = 0;
  for (let n = 0; n < gets; n++) found += host.store.get(`key:${n % 100}`) ? 1 : 0;
  return { json: { found } };
}
