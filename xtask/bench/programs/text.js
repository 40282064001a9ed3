// What plugins do to text: regular expressions with groups, replacing, counting words, a small Markdown reader.
const WORDS = "the quick brown fox jumps over lazy dogs while *seven* **wizards** brew `potions` at [home](https://a.example/x)";

function page(paragraphs) {
  const words = WORDS.split(" ");
  const out = [];
  let seed = 7;
  for (let n = 0; n < paragraphs; n++) {
    if (n % 5 === 0) out.push(`## Part ${n}`);
    const line = [];
    for (let w = 0; w < 40; w++) {
      seed = (seed * 1103515245 + 12345) & 0x7fffffff;
      line.push(words[seed % words.length]);
    }
    out.push(`${line.join(" ")} on 2026-0${1 + (n % 9)}-1${n % 10}, mail ann.${n}@mail.example.com now.`);
  }
  return out.join("\n\n");
}

function markdown(text) {
  return text.split(/\n{2,}/).map((block) => {
    const heading = /^(#{1,6})\s+(.*)$/.exec(block);
    if (heading) return `<h${heading[1].length}>${heading[2]}</h${heading[1].length}>`;
    const inner = block
      .replace(/\*\*([^*]+)\*\*/g, "<b>$1</b>")
      .replace(/\*([^*]+)\*/g, "<i>$1</i>")
      .replace(/`([^`]+)`/g, "<code>$1</code>")
      .replace(/\[([^\]]+)\]\((https?:\/\/[^)]+)\)/g, (_, label, url) => `<a href="${url}">${label}</a>`);
    return `<p>${inner}</p>`;
  }).join("\n");
}

export function main() {
  const text = page(300);
  const html = markdown(text);
  const dates = [...text.matchAll(/(?<year>\d{4})-(?<month>\d\d)-(?<day>\d\d)/g)].reduce((n, m) => n + Number(m.groups.day), 0);
  const mails = text.match(/[\w.]+@[\w.]+\.com/g).length;
  const counts = new Map();
  for (const [word] of html.toLowerCase().matchAll(/\p{L}+/gu)) counts.set(word, (counts.get(word) ?? 0) + 1);
  const most = [...counts].sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1)).slice(0, 3);
  return [html.length, dates, mails, JSON.stringify(most)].join(" ");
}
