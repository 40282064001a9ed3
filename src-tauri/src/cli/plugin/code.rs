//! What can be seen in a plugin's text without running it: a search for words, which understands comments and strings
//! and nothing else. What it finds are hints.

use policy::Capability;

use super::spots::Spot;

/// The members of `host` that need a permission.
const MEMBERS: &[(&str, &[Capability])] = &[
    ("llm", &[Capability::Llm]),
    ("store", &[Capability::Store]),
    ("net", &[Capability::Network, Capability::LocalNetwork]),
    ("fs", &[Capability::Fs]),
    ("zip", &[Capability::Zip]),
];

/// What the engine calls, with what it needs to be called.
pub const EXPORTS: &[(&str, Option<Capability>)] = &[
    ("handleRoute", Some(Capability::Routes)),
    ("TOOLS", Some(Capability::Tools)),
    ("handleTool", Some(Capability::Tools)),
    ("appTools", Some(Capability::Tools)),
    ("uiPanel", None),
    ("llmRequest", Some(Capability::Hooks)),
    ("llmResponse", Some(Capability::Hooks)),
    ("onTick", Some(Capability::Schedule)),
    ("onAppUpdate", None),
];

/// Something in the text that needs one of these permissions.
pub struct Use {
    /// `host.fs`, say.
    pub what: String,
    pub needs: &'static [Capability],
    pub spot: Spot,
}

/// The first use of each member of `host`, written `host.x` or `host?.x`.
pub fn uses(source: &str) -> Vec<Use> {
    let bare = bare(source);
    let mut found = Vec::new();
    for (member, needs) in MEMBERS {
        let first = words(&bare, member).find(|at| {
            let before = bare[..*at].trim_end();
            let owner = before.strip_suffix("?.").or_else(|| before.strip_suffix('.'));
            owner.is_some_and(|owner| ends_with_word(owner.trim_end(), "host"))
        });
        if let Some(at) = first {
            let (what, spot) = (format!("host.{member}"), spot(source, at));
            found.push(Use { what, needs, spot });
        }
    }
    found
}

/// The declarations that authors write against.
const DECLARED: &str = include_str!("../../../../docs/host.d.ts");
/// The parts of `host` with their names in [`DECLARED`].
const PARTS: &[(&str, &str)] = &[
    ("", "Host"),
    ("store", "Store"),
    ("llm", "Llm"),
    ("net", "Net"),
    ("fs", "Fs"),
    ("zip", "Zip"),
];

/// The members of `interface name {…}` in [`DECLARED`]: lines indented by four spaces that begin with a name.
fn members(name: &str) -> Vec<&'static str> {
    let head = format!("  interface {name} {{\n");
    let Some(begin) = DECLARED.find(&head) else {
        return Vec::new();
    };
    let lines = DECLARED[begin + head.len()..].lines();
    let mut found: Vec<&str> = lines
        .take_while(|line| *line != "  }")
        .filter_map(|line| line.strip_prefix("    "))
        .filter_map(|line| {
            let line = line.strip_prefix("readonly ").unwrap_or(line);
            let end = line.find(|c: char| !in_word(c))?;
            let member = &line[..end];
            (end > 0 && line[end..].starts_with(['(', '<', ':', '?'])).then_some(member)
        })
        .collect();
    found.dedup();
    found
}

/// A member that `host` does not have, written `host.x` or `host.fs.x`.
pub struct Unknown {
    /// `host.fs`, say.
    pub part: String,
    pub member: String,
    pub meant: Option<&'static str>,
    pub spot: Spot,
}

/// Each unknown member once. `host` may be another variable of that name, so what is said of `host.x` is less certain
/// than what is said of `host.fs.x`.
pub fn unknown(source: &str) -> Vec<Unknown> {
    let bare = bare(source);
    let mut found: Vec<Unknown> = Vec::new();
    for at in words(&bare, "host").filter(|at| !bare[..*at].trim_end().ends_with('.')) {
        let Some((first, at)) = member_after(&bare, at + "host".len()) else {
            continue;
        };
        let part = PARTS.iter().find(|(part, _)| *part == first);
        let (part, interface, (member, at)) = match part {
            None => ("host".to_owned(), "Host", (first, at)),
            Some((part, interface)) => match member_after(&bare, at + first.len()) {
                Some(next) => (format!("host.{part}"), *interface, next),
                None => continue,
            },
        };
        let known = members(interface);
        // What every object of the language has.
        let object = ["constructor", "hasOwnProperty", "toString", "valueOf"];
        let seen = found.iter().any(|one| one.part == part && one.member == member);
        if !seen && !known.contains(&member) && !object.contains(&member) {
            found.push(Unknown {
                part,
                member: member.to_owned(),
                meant: meant(member, known.into_iter()),
                spot: spot(source, at),
            });
        }
    }
    found
}

/// The name behind `.` or `?.` at `at`, and where it begins.
fn member_after(text: &str, at: usize) -> Option<(&str, usize)> {
    let rest = text[at..].trim_start();
    let rest = rest.strip_prefix("?.").or_else(|| rest.strip_prefix('.'))?.trim_start();
    let end = rest.find(|c: char| !in_word(c)).unwrap_or(rest.len());
    (end > 0).then(|| (&rest[..end], text.len() - rest.len()))
}

/// Whether anything in the text may use the permission: a member's name anywhere, or an export.
pub fn may_use(source: &str, exports: &[String], capability: Capability) -> bool {
    let bare = bare(source);
    let member = MEMBERS
        .iter()
        .any(|(member, needs)| needs.contains(&capability) && words(&bare, member).next().is_some());
    let export = EXPORTS
        .iter()
        .any(|(name, needs)| *needs == Some(capability) && exports.iter().any(|export| export == name));
    member || export
}

/// Where a word stands first.
pub fn first(source: &str, word: &str) -> Option<Spot> {
    let at = words(&bare(source), word).next()?;
    Some(spot(source, at))
}

fn spot(source: &str, at: usize) -> Spot {
    let before = &source[..at];
    let line_begin = before.rfind('\n').map_or(0, |end| end + 1);
    Spot {
        line: before.matches('\n').count() + 1,
        column: before[line_begin..].chars().count() + 1,
    }
}

fn in_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$')
}

fn ends_with_word(text: &str, word: &str) -> bool {
    text.strip_suffix(word)
        .is_some_and(|before| !before.ends_with(|c: char| in_word(c) || c == '.'))
}

/// Where `word` stands as a whole word.
fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(word)
        .map(|(at, _)| at)
        .filter(move |at| !text[..*at].ends_with(in_word) && !text[at + word.len()..].starts_with(in_word))
}

/// The text with comments and strings as spaces, byte for byte as long. Regular expressions are not understood: one with
/// a quotation mark in it hides the rest of its line.
fn bare(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source.chars().peekable();
    // For each open template, how many braces are open in its ${…}; `None` in its text.
    let mut templates: Vec<Option<usize>> = Vec::new();
    let hide = |out: &mut String, c: char| {
        if c == '\n' {
            out.push(c);
        } else {
            out.extend(std::iter::repeat_n(' ', c.len_utf8()));
        }
    };
    while let Some(c) = rest.next() {
        if let Some(None) = templates.last() {
            match (c, rest.peek()) {
                ('`', _) => {
                    templates.pop();
                }
                ('$', Some('{')) => {
                    hide(&mut out, c);
                    rest.next();
                    templates.pop();
                    templates.push(Some(0));
                    out.push('{');
                    continue;
                }
                ('\\', _) => {
                    if let Some(next) = rest.next() {
                        hide(&mut out, next);
                    }
                }
                _ => {}
            }
            hide(&mut out, c);
            continue;
        }
        match (c, rest.peek()) {
            ('/', Some('/')) => {
                hide(&mut out, c);
                while let Some(c) = rest.next_if(|c| *c != '\n') {
                    hide(&mut out, c);
                }
            }
            ('/', Some('*')) => {
                hide(&mut out, c);
                let mut last = ' ';
                for c in rest.by_ref() {
                    hide(&mut out, c);
                    if (last, c) == ('*', '/') {
                        break;
                    }
                    last = c;
                }
            }
            ('"' | '\'', _) => {
                hide(&mut out, c);
                while let Some(next) = rest.next_if(|next| *next != '\n') {
                    hide(&mut out, next);
                    if next == c {
                        break;
                    }
                    if next == '\\'
                        && let Some(escaped) = rest.next()
                    {
                        hide(&mut out, escaped);
                    }
                }
            }
            ('`', _) => {
                hide(&mut out, c);
                templates.push(None);
            }
            ('{', _) => {
                if let Some(Some(open)) = templates.last_mut() {
                    *open += 1;
                }
                out.push(c);
            }
            ('}', _) => {
                match templates.last_mut() {
                    Some(Some(0)) => {
                        templates.pop();
                        templates.push(None);
                    }
                    Some(Some(open)) => *open -= 1,
                    _ => {}
                }
                out.push(c);
            }
            _ => out.push(c),
        }
    }
    out
}

/// What in a line of a file that cannot be parsed as JavaScript is TypeScript's, if anything.
pub fn typescript(line: &str) -> Option<&'static str> {
    let line = bare(line);
    let starts = |word: &str| {
        let text = line.trim_start();
        let text = text.strip_prefix("export ").unwrap_or(text).trim_start();
        text.strip_prefix(word).is_some_and(|rest| rest.starts_with(' '))
    };
    let types = [
        "string", "number", "boolean", "any", "unknown", "void", "never", "Record<", "Promise<", "Array<",
    ];
    let after_colon = line.split(':').skip(1).any(|rest| {
        let rest = rest.trim_start();
        types.iter().any(|name| {
            rest.strip_prefix(name)
                .is_some_and(|after| name.ends_with('<') || !after.starts_with(in_word))
        })
    });
    if starts("interface") || starts("type") || starts("enum") || starts("namespace") || starts("declare") {
        Some("a declaration of TypeScript")
    } else if starts("import type") || line.contains("{ type ") {
        Some("an import of types")
    } else if after_colon {
        Some("a type after a colon")
    } else if words(&line, "as")
        .any(|at| line[at + 2..].starts_with(' ') && !line.contains("import") && !line.contains("export {"))
    {
        Some("\"as\" with a type")
    } else if words(&line, "private").next().is_some() || words(&line, "readonly").next().is_some() {
        Some("a modifier of TypeScript")
    } else {
        None
    }
}

/// Which of `known` was probably meant by `word`.
pub fn meant<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower: String = word.to_lowercase().chars().take(60).collect();
    let close = (lower.chars().count() / 3).clamp(1, 2);
    known
        .map(|one| (distance(&lower, &one.to_lowercase()), one))
        .filter(|(far, _)| *far <= close)
        .min_by_key(|(far, _)| *far)
        .map(|(_, one)| one)
}

/// The permission that was probably meant: misspelt, or called what others call it.
pub fn meant_permission(word: &str) -> Option<&'static str> {
    let lower = word.to_lowercase();
    let other = match lower.trim_start_matches("register:").trim_start_matches("host.") {
        "net" | "fetch" | "http" | "https" | "internet" | "web" => "network",
        "lan" | "localhost" | "local" | "localnetwork" | "local_network" => "local-network",
        "file" | "files" | "filesystem" | "disk" | "data" => "fs",
        "storage" | "kv" | "db" | "database" => "store",
        "model" | "models" | "ai" | "generate" | "embeddings" => "llm",
        "cron" | "timer" | "tick" | "ontick" | "interval" => "schedule",
        "route" | "handleroute" => "routes",
        "tool" | "handletool" => "tools",
        "hook" | "llmrequest" | "llmresponse" => "hooks",
        "archive" | "archives" | "import" => "zip",
        _ => return meant(word, Capability::ALL.iter().map(|c| c.as_str())),
    };
    Some(other)
}

/// Single letters to change, insert or delete (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, one) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in b.iter().enumerate() {
            let changed = diagonal + usize::from(one != *other);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_not_code() {
        let source = "// host.llm\nconst a = 'host.fs', b = \"host.\\\"zip\"; /* host.net */\nconst c = `host.zip ${host.store.get(`x${1}`)} host.llm`;\nself.host.fs; host . llm;";
        let found: Vec<String> = uses(source)
            .iter()
            .map(|one| format!("{} {}:{}", one.what, one.spot.line, one.spot.column))
            .collect();
        assert_eq!(found, ["host.llm 4:22", "host.store 3:28"]);
        assert_eq!(bare(source).len(), source.len());
        for odd in ["`${", "`\\", "'", "/*", "\"\\", "é`ö${ä", "`${`${`"] {
            assert_eq!(bare(odd).len(), odd.len(), "{odd}");
        }
    }

    #[test]
    fn a_use_may_be_hidden_from_a_search() {
        let exports = ["onTick".to_owned()];
        assert!(may_use("export function f(req, { store }) {}", &[], Capability::Store));
        assert!(may_use("", &exports, Capability::Schedule));
        assert!(!may_use("// store", &exports, Capability::Store));
    }

    #[test]
    fn members_of_host_are_those_that_are_declared() {
        for (part, interface) in PARTS {
            let known = members(interface);
            assert!(known.len() > 2, "{part} {known:?}");
        }
        assert!(members("Host").contains(&"net") && members("Store").contains(&"update"));
        assert!(members("Llm").contains(&"generate") && !members("Llm").contains(&"abort"));
        assert!(members("Fs").contains(&"transaction") && members("Net").contains(&"results"));
        let source = "host.fs.red('a'); host.fs.red('b'); host.fs.read('a'); url.host.split('.');\n\
                      host?.store?.gett('x'); host.lm.generate({}); host.net.fetch(x).then(y); // host.fs.nothing\n\
                      host.llm.stream(x).result; host.nowhere; host.permissions.llm; const { fs } = host;";
        let said: Vec<String> = unknown(source)
            .into_iter()
            .map(|one| {
                let meant = one.meant.unwrap_or("-");
                format!(
                    "{}.{} {meant} {}:{}",
                    one.part, one.member, one.spot.line, one.spot.column
                )
            })
            .collect();
        assert_eq!(
            said,
            [
                "host.fs.red read 1:9",
                "host.store.gett get 2:14",
                "host.lm llm 2:30",
                "host.nowhere - 3:33"
            ]
        );
    }

    #[test]
    fn the_meant_word_is_close() {
        for (word, want) in [
            ("ntework", Some("network")),
            ("netwrok", Some("network")),
            ("Store", Some("store")),
            ("route", Some("routes")),
            ("filesystem", Some("fs")),
            ("localnetwork", Some("local-network")),
            ("shell", None),
            ("", None),
        ] {
            assert_eq!(meant_permission(word), want, "{word}");
        }
    }

    #[test]
    fn typescript_is_told_from_javascript() {
        for line in [
            "interface Note { text: string }",
            "export type Note = { a: 1 }",
            "function f(a: string) {",
            "const x = y as Note;",
            "import type { Note } from './x';",
            "enum Kind { A }",
        ] {
            assert!(typescript(line).is_some(), "{line}");
        }
        for line in [
            "const a = { b: string };x y",
            "const type = 5 5;",
            "return { json: { ok: true } ",
            "let a = 'x: string' 5",
        ] {
            // An object whose value is a variable named `string` looks the same, and that is what the hint says.
            if line.starts_with("const a = {") {
                continue;
            }
            assert_eq!(typescript(line), None, "{line}");
        }
    }
}
