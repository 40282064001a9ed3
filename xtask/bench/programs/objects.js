// Records: making, sorting, grouping, spreading, Map and Set, JSON.
function records(count) {
  const out = [];
  let seed = 42;
  for (let id = 0; id < count; id++) {
    seed = (seed * 1103515245 + 12345) & 0x7fffffff;
    out.push({ id, name: `person ${seed % 997}`, age: seed % 90, tags: [`t${seed % 7}`, `t${seed % 11}`], at: { x: seed % 100, y: id } });
  }
  return out;
}

export function main() {
  const all = records(8000);
  const sorted = [...all].sort((a, b) => a.age - b.age || a.name.localeCompare(b.name) || a.id - b.id);
  const groups = new Map();
  for (const one of sorted) {
    const list = groups.get(one.age);
    if (list) list.push(one);
    else groups.set(one.age, [one]);
  }
  const older = sorted.filter(({ age }) => age > 30).map((one) => ({ ...one, age: one.age + 1, at: { ...one.at, z: 1 } }));
  const tags = new Set(older.flatMap(({ tags }) => tags));
  const { sum } = older.reduce((so, { at: { x, z } }) => ({ sum: so.sum + x * z }), { sum: 0 });
  const copy = JSON.parse(JSON.stringify(older));
  return [groups.size, older.length, tags.size, sum, copy.length, Object.entries(copy[7]).length].join(" ");
}
