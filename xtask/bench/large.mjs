// Prints a plugin of 200 KB, the same on every machine: modules' worth of functions of the kinds that plugins are made
// of (reading forms, formatting, walking trees, small classes, tables of text), of which one route uses some.
const BYTES = 200 * 1024;

const kinds = [
  (n) => `
/** Checks and tidies a record of kind ${n}. */
function readRecord${n}(input) {
  const errors = [];
  const title = String(input.title ?? "").trim();
  if (!title) errors.push({ field: "title", message: "record ${n} needs a title" });
  if (title.length > ${80 + (n % 7) * 10}) errors.push({ field: "title", message: "the title is too long" });
  const amount = Number(input.amount ?? ${n});
  if (!Number.isFinite(amount) || amount < 0) errors.push({ field: "amount", message: "not an amount: " + input.amount });
  const tags = Array.isArray(input.tags) ? input.tags.filter((tag) => typeof tag === "string").map((tag) => tag.toLowerCase()) : [];
  return errors.length ? { ok: false, errors } : { ok: true, value: { kind: "record${n}", title, amount, tags: [...new Set(tags)].sort() } };
}`,
  (n) => `
function describe${n}(item, options = {}) {
  const { locale = "en", short = false, depth = ${n % 4} } = options;
  const words = { en: ["one", "many", "nothing of ${n}"], de: ["eins", "viele", "nichts von ${n}"], fr: ["un", "plusieurs", "rien de ${n}"] }[locale];
  switch (true) {
    case item == null: return words[2];
    case typeof item === "string": return short ? item.slice(0, 20) + (item.length > 20 ? "…" : "") : item;
    case Array.isArray(item): return item.length === 1 ? \`\${words[0]}: \${describe${n}(item[0], options)}\` : \`\${item.length} \${words[1]}\`;
    case typeof item === "object" && depth > 0: return Object.entries(item).map(([key, value]) => key + "=" + describe${n}(value, { ...options, depth: depth - 1 })).join(", ");
    default: return String(item);
  }
}`,
  (n) => `
class Shelf${n} {
  #items = new Map();
  static limit = ${100 + n};
  constructor(items = []) {
    for (const item of items) this.add(item);
  }
  add(item) {
    if (this.#items.size >= Shelf${n}.limit) throw new RangeError("shelf ${n} is full");
    this.#items.set(item.id ?? \`item-\${this.#items.size}\`, { ...item, added: this.#items.size });
    return this;
  }
  find(test) {
    for (const [id, item] of this.#items) if (test(item, id)) return item;
    return undefined;
  }
  total(field = "amount") {
    let sum = 0;
    for (const item of this.#items.values()) sum += Number(item[field]) || 0;
    return sum;
  }
  get size() {
    return this.#items.size;
  }
}`,
  (n) => `
const table${n} = {
  labels: { open: "Open ${n}", closed: "Closed", waiting: "Waiting for an answer", archived: "In the archive" },
  colours: ["#1f2937", "#0ea5e9", "#f59e0b", "#10b981", "#ef4444", "#8b5cf6"],
  rules: [
    { when: /^urgent\\b/i, then: "open", weight: ${n % 9} },
    { when: /\\b(done|finished|closed)\\b/i, then: "closed", weight: 2 },
    { when: /\\?\\s*$/, then: "waiting", weight: 1 },
  ],
};
async function classify${n}(text, store) {
  const seen = store ? await store.get("seen:${n}") : undefined;
  try {
    const found = table${n}.rules.filter(({ when }) => when.test(text)).sort((a, b) => b.weight - a.weight)[0];
    return { state: found?.then ?? seen ?? "archived", label: table${n}.labels[found?.then ?? "archived"], colour: table${n}.colours[text.length % 6] };
  } catch (error) {
    return { state: "open", error: error.message };
  }
}`,
];

const parts = ['// Made by large.mjs.\nconst NAME = "large";\n'];
let bytes = 0;
let count = 0;
while (bytes < BYTES - 1500) {
  const part = `${kinds[count % kinds.length](count)}\n`;
  parts.push(part);
  bytes += Buffer.byteLength(part);
  count++;
}
parts.push(`
export async function handleRoute(req, host) {
  if (req.method !== "GET" || !req.path.startsWith("/items")) return;
  const read = readRecord0({ title: "  A thing ", amount: 5, tags: ["B", "a", "b"] });
  const shelf = new Shelf2([{ id: "x", amount: 2 }, { id: "y", amount: 3 }]);
  const state = await classify3("urgent: is it done?");
  return { json: { path: req.path, name: NAME, read, total: shelf.total(), state, text: describe1([read.value], { short: true }) } };
}
`);
process.stdout.write(parts.join(""));
