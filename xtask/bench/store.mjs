// Puts and gets of JSON in better-sqlite3, in this process and without a sandbox around them: for scale.
// Prints `bench sqlite_put_us NUMBER` and `bench sqlite_get_us NUMBER`: microseconds each, medians of 20 times 500.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";

const folder = mkdtempSync(join(tmpdir(), "chrysalis-bench-"));
const db = new Database(join(folder, "db"));
db.pragma("journal_mode = WAL");
db.pragma("synchronous = NORMAL");
db.exec("CREATE TABLE store (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID");
const put = db.prepare("INSERT INTO store VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value");
const get = db.prepare("SELECT value FROM store WHERE name = ?").pluck();

function measure(name, each) {
  const times = [];
  for (let run = 0; run < 22; run++) {
    const began = performance.now();
    for (let n = 0; n < 500; n++) each(n);
    if (run >= 2) times.push(((performance.now() - began) * 1000) / 500);
  }
  times.sort((a, b) => a - b);
  console.log(`bench sqlite_${name}_us ${times[10].toFixed(2)}`);
}

try {
  measure("put", (n) => put.run(`key:${n % 100}`, JSON.stringify({ n, text: "some words that somebody wrote down" })));
  measure("get", (n) => JSON.parse(get.get(`key:${n % 100}`)));
} finally {
  db.close();
  rmSync(folder, { recursive: true, force: true });
}
