// Building strings: concatenation, templates, join, split, slices, numbers to text.
function table(rows) {
  let out = "";
  for (let row = 0; row < rows; row++) {
    out += `<tr class="${row % 2 ? "odd" : "even"}">`;
    for (let column = 0; column < 5; column++) out += "<td>" + (row * column).toString(16).padStart(6, "0") + "</td>";
    out += "</tr>\n";
  }
  return out;
}

function wrap(text, width) {
  const lines = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line.length + word.length + 1 > width) {
      lines.push(line);
      line = word;
    } else {
      line = line ? `${line} ${word}` : word;
    }
  }
  lines.push(line);
  return lines.join("\n");
}

function escape(text) {
  let out = "";
  for (let n = 0; n < text.length; n++) {
    const c = text[n];
    out += c === "<" ? "&lt;" : c === ">" ? "&gt;" : c === "&" ? "&amp;" : c === '"' ? "&quot;" : c;
  }
  return out;
}

export function main() {
  const made = table(3000);
  const escaped = escape(made);
  const wrapped = wrap(escaped.replaceAll("&lt;/td", " &lt;/td"), 80);
  let codes = 0;
  for (let n = 0; n < wrapped.length; n += 3) codes = (codes + wrapped.charCodeAt(n)) | 0;
  return [made.length, escaped.length, wrapped.length, codes, wrapped.slice(-20).toUpperCase()].join(" ");
}
