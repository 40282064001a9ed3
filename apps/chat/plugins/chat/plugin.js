// Keeps conversations and asks the model. The page only shows; an answer goes on, and is kept, when the page is gone.
//
// Stored, each under its own key so that every write is small:
//   c:<conversation>      {id, title, titled, model, createdAt, updatedAt, count, deletedAt?}
//   m:<conversation>:<n>  {n, role: "user"|"assistant", text, thinking?, at, state, …}, n from 0 to count - 1
//   e:<conversation>      {at, from, count, messages}: what an edit took away, for as long as it can be undone
// A user's message may have images (addresses of assets). An assistant message has state "pending" (with chatId, the name of its stream), "done", "stopped", "interrupted" or
// "error" (with error). While a retry runs, `previous` holds the answer that it is to replace.

// A killed engine may cost the last half second of an answer, no more.
const SAVE_EVERY_MS = 250;
// A deleted conversation can be brought back for this long; then its space is freed.
const KEEP_DELETED_MS = 10 * 60 * 1000;
// One message; the whole store has 1 MiB.
const MAX_TEXT_CHARS = 200_000;
const MAX_TITLE_CHARS = 80;
const MAX_IMAGES = 8;
// What a model wants to see again of its own answer; longer ones are left out, and the text alone is sent.
const MAX_REPLAY_CHARS = 16_000;
const LEVELS = ["off", "minimal", "low", "medium", "high", "xhigh", "max"];
// A search shows so much of a message before and after what was found.
const SNIPPET_CHARS = 40;

export async function handleRoute(req, host) {
  const [top, id, action, ...more] = req.path.split("/").filter(Boolean);
  if (top !== "conversations" || more.length > 0) return undefined;
  try {
    return await route(req, host, id, action);
  } catch (error) {
    if (error instanceof Refusal) return refusal(error.status, error.code, error.message);
    throw error;
  }
}

async function route(req, host, id, action) {
  const body = bodyOf(req);
  if (id === undefined) {
    if (req.method === "GET") return { json: { conversations: searched(host, listed(host), req.query?.q) } };
    if (req.method === "POST") return { status: 201, json: { conversation: created(host, body) } };
  } else if (action === undefined) {
    if (req.method === "GET") return { json: opened(host, id, req.query ?? {}) };
    if (req.method === "PATCH") return { json: { conversation: changed(host, id, body) } };
    if (req.method === "DELETE") return { json: { conversation: deleted(host, id) } };
  } else if (req.method === "POST" && action === "send") {
    return { json: await sent(host, id, body) };
  } else if (req.method === "POST" && action === "retry") {
    return { json: await retried(host, id, body) };
  } else if (req.method === "POST" && action === "edit") {
    return { json: await edited(host, id, body) };
  } else if (req.method === "POST" && action === "unedit") {
    return { json: unedited(host, id) };
  }
  return undefined;
}

class Refusal extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

function refusal(status, code, error) {
  return { status, json: { error, code } };
}

function bodyOf(req) {
  let body = req.body;
  if (typeof body === "string" && body !== "") {
    try {
      body = JSON.parse(body);
    } catch {
      throw new Refusal(400, "bad-body", "The request body is not JSON.");
    }
  }
  return body !== null && typeof body === "object" && !Array.isArray(body) ? body : {};
}

// ---- conversations

function listed(host) {
  const all = host.store
    .keys()
    .filter((key) => key.startsWith("c:"))
    .map((key) => host.store.get(key))
    .filter((conversation) => conversation !== null && typeof conversation === "object");
  const before = Date.now() - KEEP_DELETED_MS;
  freeDeleted(host, all, before);
  freeEdits(host, before);
  return all.filter((conversation) => !conversation.deletedAt).sort((a, b) => b.updatedAt - a.updatedAt);
}

function freeEdits(host, before) {
  let freed = false;
  for (const key of host.store.keys()) {
    if (!key.startsWith("e:") || host.store.get(key)?.at > before) continue;
    host.store.delete(key);
    freed = true;
  }
  return freed;
}

/** The conversations with every word of `wanted` in their title or in one message, each with the place it was found. */
function searched(host, conversations, wanted) {
  const words = typeof wanted === "string" ? wanted.toLowerCase().split(/\s+/).filter(Boolean) : [];
  if (words.length === 0) return conversations;
  const has = (text) => {
    const lower = text.toLowerCase();
    return words.every((word) => lower.includes(word));
  };
  return conversations.flatMap((conversation) => {
    for (let n = 0; n < conversation.count; n++) {
      const text = host.store.get(messageKey(conversation.id, n))?.text;
      if (typeof text === "string" && has(text)) return [{ ...conversation, hit: { n, text: snippet(text, words[0]) } }];
    }
    return has(conversation.title) ? [conversation] : [];
  });
}

function snippet(text, word) {
  const at = Math.max(0, text.toLowerCase().indexOf(word));
  // By characters, so that none is cut in two.
  const before = [...text.slice(0, at)].slice(-SNIPPET_CHARS).join("");
  const after = [...text.slice(at)].slice(0, word.length + SNIPPET_CHARS).join("");
  const line = `${before}${after}`.replace(/\s+/g, " ");
  return `${before.length < at ? "…" : ""}${line}${at + after.length < text.length ? "…" : ""}`;
}

function created(host, body) {
  const now = Date.now();
  const id = now.toString(36) + Math.floor(Math.random() * 36 ** 6).toString(36).padStart(6, "0");
  const title = titleOf(body.title);
  const conversation = {
    id,
    title: title ?? "New conversation",
    titled: title !== null,
    model: typeof body.model === "string" ? body.model : null,
    reasoning: levelOf(body.reasoning),
    createdAt: now,
    updatedAt: now,
    count: 0,
  };
  keep(host, `c:${id}`, conversation);
  return conversation;
}

function found(host, id, { evenDeleted = false } = {}) {
  const conversation = /^[a-z0-9]{1,40}$/.test(id) ? host.store.get(`c:${id}`) : null;
  if (!conversation || (conversation.deletedAt && !evenDeleted)) {
    throw new Refusal(404, "no-conversation", "This conversation does not exist any more.");
  }
  return conversation;
}

function changed(host, id, body) {
  const conversation = found(host, id, { evenDeleted: true });
  if ("title" in body) {
    const title = titleOf(body.title);
    if (title === null) throw new Refusal(400, "bad-title", "A title needs at least one letter.");
    conversation.title = title;
    conversation.titled = true;
  }
  if ("model" in body) conversation.model = typeof body.model === "string" ? body.model : null;
  if ("reasoning" in body) conversation.reasoning = levelOf(body.reasoning);
  if (body.deleted === false) delete conversation.deletedAt;
  keep(host, `c:${id}`, conversation);
  return conversation;
}

function deleted(host, id) {
  const conversation = found(host, id);
  conversation.deletedAt = Date.now();
  try {
    host.store.put(`c:${id}`, conversation);
  } catch {
    // Too full even for the mark that makes a deletion undoable: then it is gone now, which frees the space.
    erase(host, conversation);
  }
  return conversation;
}

function freeDeleted(host, conversations, before) {
  let freed = false;
  for (const conversation of conversations) {
    if (!conversation.deletedAt || conversation.deletedAt > before) continue;
    erase(host, conversation);
    freed = true;
  }
  return freed;
}

function erase(host, { id }) {
  for (const key of host.store.keys()) {
    if (key.startsWith(`m:${id}:`)) host.store.delete(key);
  }
  host.store.delete(`e:${id}`);
  host.store.delete(`c:${id}`);
}

function levelOf(given) {
  return LEVELS.includes(given) ? given : null;
}

function titleOf(given) {
  if (typeof given !== "string") return null;
  const line = given.trim().split(/\s+/).join(" ");
  return line === "" ? null : [...line].slice(0, MAX_TITLE_CHARS).join("");
}

// ---- the store, and what to do when it is full

function keep(host, key, value) {
  try {
    host.store.put(key, value);
    return;
  } catch (error) {
    const deletedOnes = host.store
      .keys()
      .filter((name) => name.startsWith("c:"))
      .map((name) => host.store.get(name))
      .filter(Boolean);
    const freed = [freeDeleted(host, deletedOnes, Infinity), !key.startsWith("e:") && freeEdits(host, Infinity)];
    if (!freed.includes(true)) throw full(error);
  }
  try {
    host.store.put(key, value);
  } catch (error) {
    throw full(error);
  }
}

function full(error) {
  return new Refusal(
    507,
    "full",
    `Chat's storage is full, so nothing was added (${reasonOf(error)}). Delete a conversation you no longer need, then try again.`,
  );
}

function reasonOf(error) {
  return String(error?.message ?? error);
}

// ---- messages

function messageKey(id, n) {
  return `m:${id}:${n}`;
}

function messagesOf(host, conversation) {
  const messages = [];
  for (let n = 0; n < conversation.count; n++) {
    const message = host.store.get(messageKey(conversation.id, n));
    if (message) messages.push(message);
  }
  return messages;
}

/** `?lost=<chatId>`: the page has found that this stream runs no more. Then nobody will finish the message. */
function opened(host, id, query) {
  const conversation = found(host, id);
  const messages = messagesOf(host, conversation);
  const last = messages.at(-1);
  if (last?.state === "pending" && typeof query.lost === "string" && last.chatId === query.lost) {
    const ended = endedWith(last, { state: "interrupted" });
    messages[messages.length - 1] = ended;
    try {
      host.store.put(messageKey(id, ended.n), ended);
    } catch (error) {
      // Reading works with a full store too; the mark is made again next time.
      host.log("could not mark an interrupted answer:", reasonOf(error));
    }
  }
  return { conversation, messages };
}

/** What a request asks, checked: `{text, images?}`. */
function questionOf(body) {
  const text = typeof body.text === "string" ? body.text : "";
  const images = Array.isArray(body.images) ? body.images : [];
  if (images.length > MAX_IMAGES) {
    throw new Refusal(400, "too-many-images", `One message may have ${MAX_IMAGES} images; this one has ${images.length}.`);
  }
  if (!images.every((image) => typeof image === "string" && /^\/v1\/assets\/[0-9a-f]{64}$/.test(image))) {
    throw new Refusal(400, "bad-image", "An image is attached by the address of its asset.");
  }
  if (text.trim() === "" && images.length === 0) throw new Refusal(400, "empty", "There is nothing to send.");
  if (text.length > MAX_TEXT_CHARS) {
    throw new Refusal(
      413,
      "too-long",
      `This message has ${text.length} characters; one message may have ${MAX_TEXT_CHARS}. Send it in parts.`,
    );
  }
  return images.length > 0 ? { text, images } : { text };
}

async function sent(host, id, body) {
  const conversation = found(host, id);
  const asked = questionOf(body);
  const known = alreadyAsked(host, conversation, body.chatId);
  if (known) return known;
  return ask(host, conversation, conversation.count, asked, body);
}

/** Keeps a question as message `n` with an answer to come, the last two of the conversation, and asks the model. */
function ask(host, conversation, n, asked, body, kept = []) {
  const { id } = conversation;
  const now = Date.now();
  const question = { n, role: "user", ...asked, at: now, state: "done" };
  const answer = pendingAnswer(id, n + 1, modelOf(body, conversation), body.chatId, now);
  const next = { ...conversation, model: answer.model, updatedAt: now, count: n + 2 };
  if ("reasoning" in body) next.reasoning = levelOf(body.reasoning);
  if (!next.titled && n === 0) next.title = titleOf(asked.text) ?? next.title;
  keepTogether(host, conversation, [
    ...kept,
    [messageKey(id, n), question],
    [messageKey(id, n + 1), answer],
    [`c:${id}`, next],
  ]);
  // Only now: what is beyond the count is not shown, whatever happens here.
  for (let gone = n + 2; gone < conversation.count; gone++) host.store.delete(messageKey(id, gone));
  return answered(host, next, answer);
}

/** Asks an earlier question anew, in other words. What followed it is kept aside, to be brought back by `unedit`. */
async function edited(host, id, body) {
  const conversation = found(host, id);
  const asked = questionOf(body);
  const known = alreadyAsked(host, conversation, body.chatId);
  if (known) return known;
  const { n } = body;
  const old = Number.isInteger(n) && n >= 0 && n < conversation.count ? host.store.get(messageKey(id, n)) : null;
  if (old?.role !== "user") throw new Refusal(400, "not-a-question", "Only a message of yours can be edited.");
  const messages = messagesOf(host, conversation).filter((message) => message.n >= n);
  const aside = { at: Date.now(), from: n, count: conversation.count, messages };
  return ask(host, conversation, n, asked, body, [[`e:${id}`, aside]]);
}

function unedited(host, id) {
  const conversation = found(host, id);
  const aside = host.store.get(`e:${id}`);
  if (!aside) throw new Refusal(409, "nothing-to-undo", "This edit cannot be undone any more.");
  if (host.store.get(messageKey(id, conversation.count - 1))?.state === "pending") {
    throw new Refusal(409, "busy", "An answer is still being written here. Stop it, or wait for its end.");
  }
  const next = { ...conversation, count: aside.count, updatedAt: Date.now() };
  // The space it takes is needed for what it holds.
  host.store.delete(`e:${id}`);
  try {
    keepTogether(host, conversation, [
      ...aside.messages.map((message) => [messageKey(id, message.n), message]),
      [`c:${id}`, next],
    ]);
  } catch (error) {
    host.store.put(`e:${id}`, aside);
    throw error;
  }
  for (let gone = aside.count; gone < conversation.count; gone++) host.store.delete(messageKey(id, gone));
  return { conversation: next, messages: messagesOf(host, next) };
}

async function retried(host, id, body) {
  const conversation = found(host, id);
  const known = alreadyAsked(host, conversation, body.chatId);
  if (known) return known;
  const messages = messagesOf(host, conversation);
  const last = messages.at(-1);
  if (!last) throw new Refusal(409, "nothing-to-retry", "There is no answer to try again yet.");
  const now = Date.now();
  const n = last.role === "assistant" ? last.n : last.n + 1;
  const answer = pendingAnswer(id, n, modelOf(body, conversation), body.chatId, now);
  if (last.role === "assistant" && last.text !== "") {
    const { previous, chatId, retryFailed, ...kept } = last;
    answer.previous = kept;
  }
  const next = { ...conversation, model: answer.model, updatedAt: now, count: n + 1 };
  if ("reasoning" in body) next.reasoning = levelOf(body.reasoning);
  keepTogether(host, conversation, [
    [messageKey(id, n), answer],
    [`c:${id}`, next],
  ]);
  return answered(host, next, answer);
}

/** Browsers repeat a request whose connection broke; the same stream name is the same question, never a second one. */
function alreadyAsked(host, conversation, chatId) {
  const last = host.store.get(messageKey(conversation.id, conversation.count - 1));
  const same = typeof chatId === "string" && last?.chatId === chatId;
  if (last?.state === "pending") {
    const what = same ? "This answer is being written already." : "An answer is still being written here.";
    throw new Refusal(409, same ? "running" : "busy", `${what} Stop it, or wait for its end.`);
  }
  return same ? { conversation, message: last } : null;
}

function modelOf(body, conversation) {
  return typeof body.model === "string" && body.model !== "" ? body.model : conversation.model;
}

function pendingAnswer(id, n, model, wanted, at) {
  // The page names the stream, so that it can listen before this call returns.
  const ours = typeof wanted === "string" && wanted.startsWith(`${id}:${n}:`) && /^[a-z0-9:]{1,100}$/.test(wanted);
  const chatId = ours ? wanted : `${id}:${n}:${Math.floor(Math.random() * 36 ** 8).toString(36)}`;
  return { n, role: "assistant", text: "", at, state: "pending", model, chatId };
}

/** Writes all or nothing: what was new is taken out again, what was old is put back. */
function keepTogether(host, before, writes) {
  const done = [];
  try {
    for (const [key, value] of writes) {
      const old = host.store.get(key);
      keep(host, key, value);
      done.push([key, old]);
    }
  } catch (error) {
    for (const [key, old] of done.reverse()) {
      if (old === null || old === undefined) host.store.delete(key);
      else host.store.put(key, old);
    }
    throw error;
  }
}

/** Runs the model for a pending message that is already kept, and keeps what comes. */
async function answered(host, conversation, pending) {
  const key = messageKey(conversation.id, pending.n);
  const messages = messagesOf(host, conversation)
    .filter((message) => message.n < pending.n && (message.text !== "" || message.images))
    .map(({ role, text, images, replay }) => ({
      role,
      content: text,
      ...(images ? { images } : {}),
      ...(replay ? { replay } : {}),
    }));

  let message = pending;
  // The first words are kept at once; from then on there is a pause between two writes.
  let savedAt = 0;
  let saved = pending;
  let timer = null;
  let over = false;
  const savePartial = () => {
    savedAt = Date.now();
    saved = message;
    try {
      if (stillOurs(host, key, pending)) host.store.put(key, message);
    } catch (error) {
      // A full store must not end the answer; the end tries once more, and says so if it cannot.
      host.log("could not keep a partial answer:", reasonOf(error));
    }
  };
  const saveSoon = () => {
    if (message === saved) return;
    const wait = SAVE_EVERY_MS - (Date.now() - savedAt);
    if (wait <= 0) savePartial();
    else if (timer === null && typeof setTimeout === "function") {
      // Without it, what came just before a long silence would not be kept until the silence ends.
      timer = setTimeout(() => {
        timer = null;
        if (!over) savePartial();
      }, wait);
    }
  };

  let result;
  try {
    const run = host.llm.stream({
      messages,
      model: pending.model,
      ...(conversation.reasoning ? { reasoning: conversation.reasoning } : {}),
      stream: { chatId: pending.chatId, name: "answer" },
    });
    for await (const part of run) {
      if (part.delta) message = { ...message, text: message.text + part.delta };
      if (part.thinking) message = { ...message, thinking: (message.thinking ?? "") + part.thinking };
      saveSoon();
    }
    result = await run.result;
  } catch (error) {
    result = { error: reasonOf(error) };
  }
  over = true;
  if (timer !== null && typeof clearTimeout === "function") clearTimeout(timer);

  const ended = endedWith({ ...message, ...factsOf(result) }, outcomeOf(message, result));
  // Without a choice the engine picked the model: the answer says which one it was.
  if (!ended.model && typeof result.model === "string" && result.model !== "error") ended.model = result.model;
  if (!stillOurs(host, key, pending)) {
    // Deleted or replaced meanwhile: there is nothing to write it to.
    return { conversation, message: ended };
  }
  try {
    keep(host, key, ended);
    return { conversation, message: ended };
  } catch (error) {
    return { conversation, message: { ...ended, unsaved: reasonOf(error) } };
  }
}

/** What is worth keeping beside an answer's text: what it cost, how long it thought, what its model wants to see again. */
function factsOf(result) {
  const facts = {};
  const { input, output, cacheRead, cacheWrite, costTotal, priced } = result.usage ?? {};
  if (input > 0 || output > 0) {
    const tokensIn = (input ?? 0) + (cacheRead ?? 0) + (cacheWrite ?? 0);
    // A price that is not known is not nothing.
    facts.usage = { tokensIn, tokensOut: output ?? 0, cost: priced ? costTotal : null };
  }
  if (result.reasoningTimeMs > 0) facts.thoughtMs = result.reasoningTimeMs;
  if (result.replay && JSON.stringify(result.replay).length <= MAX_REPLAY_CHARS) facts.replay = result.replay;
  if (typeof result.errorInfo?.kind === "string") facts.errorKind = result.errorInfo.kind;
  return facts;
}

function stillOurs(host, key, pending) {
  const stored = host.store.get(key);
  return stored?.chatId === pending.chatId;
}

function outcomeOf(message, result) {
  if (result.stopped) return { state: "stopped" };
  if (result.error) return { state: "error", error: String(result.error) };
  if (message.text === "" && typeof result.text === "string" && result.text !== "") {
    return { text: result.text, ...(result.truncated ? { state: "interrupted" } : { state: "done" }) };
  }
  if (result.truncated) return { state: "interrupted" };
  if (message.text === "") return { state: "error", error: "The model answered with nothing." };
  return { state: "done" };
}

/** The final form of a pending message. A retry that brought no text gives the earlier answer back, with the reason. */
function endedWith(message, outcome) {
  const { previous, ...rest } = message;
  const ended = { ...rest, ...outcome };
  if (previous && ended.text === "") {
    const why = outcome.error ?? (outcome.state === "stopped" ? "it was stopped" : "it was interrupted");
    return { ...previous, chatId: message.chatId, retryFailed: why };
  }
  return ended;
}
