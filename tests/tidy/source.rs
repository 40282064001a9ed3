//! Reading Rust well enough to search it: code without comments, strings and tests.

use std::collections::HashSet;
use std::sync::OnceLock;

use crate::{Problem, files};

/// The code alone: comments and the insides of string and character literals become spaces, so that words in them
/// count for nothing and braces can be matched. Lines stay where they were.
pub fn code(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut i = 0;
    let blank = |out: &mut String, c: char| out.push(if c == '\n' { '\n' } else { ' ' });
    while i < chars.len() {
        let rest = &chars[i..];
        let after_word = i > 0 && (chars[i - 1].is_alphanumeric() || chars[i - 1] == '_');
        let length = if rest.starts_with(&['/', '/']) {
            rest.iter().position(|c| *c == '\n').unwrap_or(rest.len())
        } else if rest.starts_with(&['/', '*']) {
            block_comment(rest)
        } else if rest[0] == '"' {
            quoted(rest, '"')
        } else if rest[0] == 'r' && !after_word {
            raw_string(rest)
        } else if rest[0] == 'b' && rest.get(1) == Some(&'r') && !after_word {
            match raw_string(&rest[1..]) {
                0 => 0,
                n => n + 1,
            }
        } else if rest[0] == '\'' && (rest.get(1) == Some(&'\\') || rest.get(2) == Some(&'\'')) {
            quoted(rest, '\'')
        } else {
            0
        };
        if length == 0 {
            out.push(rest[0]);
            i += 1;
        } else {
            rest[..length.min(rest.len())].iter().for_each(|c| blank(&mut out, *c));
            i += length;
        }
    }
    out
}

fn block_comment(rest: &[char]) -> usize {
    let (mut depth, mut i) = (0, 0);
    while i < rest.len() {
        if rest[i..].starts_with(&['/', '*']) {
            depth += 1;
            i += 2;
        } else if rest[i..].starts_with(&['*', '/']) {
            depth -= 1;
            i += 2;
            if depth == 0 {
                return i;
            }
        } else {
            i += 1;
        }
    }
    rest.len()
}

fn quoted(rest: &[char], quote: char) -> usize {
    let mut i = 1;
    while i < rest.len() && rest[i] != quote {
        i += if rest[i] == '\\' { 2 } else { 1 };
    }
    i + 1
}

/// The length of a raw string that starts here, or 0.
fn raw_string(rest: &[char]) -> usize {
    let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
    if rest.get(1 + hashes) != Some(&'"') {
        return 0;
    }
    let mut end = vec!['"'];
    end.extend(std::iter::repeat_n('#', hashes));
    let body = 2 + hashes;
    (body..rest.len())
        .find(|i| rest[*i..].starts_with(&end))
        .map_or(rest.len(), |i| i + end.len())
}

/// [`code`] without the items marked `#[cfg(test)]`: tests may do what the program may not.
pub fn program(text: &str) -> String {
    let mut code = code(text);
    while let Some(start) = code.find("#[cfg(test)]") {
        let rest = &code[start..];
        let open = rest.find('{').unwrap_or(rest.len());
        let end = match rest.find(';') {
            // `#[cfg(test)] mod tests;` and `use` have no body.
            Some(semicolon) if semicolon < open => semicolon + 1,
            _ => {
                let mut depth = 0;
                rest.char_indices()
                    .find(|(_, c)| {
                        depth += i32::from(*c == '{') - i32::from(*c == '}');
                        *c == '}' && depth == 0
                    })
                    .map_or(rest.len(), |(i, _)| i + 1)
            }
        };
        let blank: String = rest[..end]
            .chars()
            .map(|c| if c == '\n' { '\n' } else { ' ' })
            .collect();
        code.replace_range(start..start + end, &blank);
    }
    code
}

/// Each place where one of `words` stands in `text` as whole words.
pub fn find(path: &str, text: &str, words: &[&str], why: &str) -> Vec<Problem> {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let mut problems = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for word in words {
            let whole = line.match_indices(word).any(|(at, _)| {
                let before = part(word.chars().next()) && part(line[..at].chars().next_back());
                let after = part(word.chars().next_back()) && part(line[at + word.len()..].chars().next());
                !before && !after
            });
            if whole {
                problems.push(format!("{path}:{}: `{word}`: {why}", number + 1));
            }
        }
    }
    problems
}

pub fn is_rust(path: &str) -> bool {
    path.ends_with(".rs")
}

/// Rust that ends up in the program: under src-tauri, and neither tests nor examples nor the test kit.
pub fn ships(path: &str) -> bool {
    let beside = ["/tests/", "/examples/", "/benches/", "/testkit/"];
    is_rust(path)
        && path.starts_with("src-tauri/")
        && !test_only().contains(path)
        && !beside.iter().any(|part| path.contains(part))
}

/// The files whose module is declared under `#[cfg(test)]`.
fn test_only() -> &'static HashSet<String> {
    static FOUND: OnceLock<HashSet<String>> = OnceLock::new();
    FOUND.get_or_init(|| {
        files()
            .iter()
            .filter(|file| is_rust(&file.path))
            .flat_map(|file| test_modules(&file.path, &file.text))
            .collect()
    })
}

/// Where the modules lie that this file declares for tests only.
fn test_modules(path: &str, text: &str) -> Vec<String> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let inside = match name {
        "lib.rs" | "main.rs" | "mod.rs" => folder.to_string(),
        _ => format!("{folder}/{}", name.trim_end_matches(".rs")),
    };
    code(text)
        .split("#[cfg(test)]")
        .skip(1)
        .filter_map(|rest| {
            let item = rest
                .trim_start()
                .trim_start_matches("pub(crate) ")
                .trim_start_matches("pub ");
            let (module, _) = item.strip_prefix("mod ")?.split_once(';')?;
            (!module.contains('{')).then(|| format!("{inside}/{}.rs", module.trim()))
        })
        .collect()
}

pub fn in_crate(path: &str, name: &str) -> bool {
    path.starts_with(&format!("src-tauri/crates/{name}/"))
}

pub fn ships_outside(path: &str, crates: &[&str]) -> bool {
    ships(path) && !crates.iter().any(|name| in_crate(path, name))
}

#[test]
fn self_test_reading_rust() {
    let text = "a // x\nb /* y /* z */ */ c \"d \\\" e\" f r#\"g \" h\"# '{' i 'life j '\\'' k br\"l\"";
    let code = code(text);
    let words: Vec<&str> = code.split_whitespace().collect();
    assert_eq!(words, ["a", "b", "c", "f", "i", "'life", "j", "k"]);
    let text = "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { let c = '}'; } }\n#[cfg(test)]\nuse d;\nfn e() {}";
    let program = program(text);
    assert!(program.contains("fn a") && program.contains("fn e"), "{program}");
    assert!(!program.contains('b') && !program.contains('d'), "{program}");
    let declares = "#[cfg(test)]\nmod testing;\n#[cfg(test)]\nmod tests { use a; }\nmod real;";
    assert_eq!(test_modules("a/src/lib.rs", declares), ["a/src/testing.rs"]);
    assert_eq!(test_modules("a/src/door.rs", declares), ["a/src/door/testing.rs"]);
    assert_eq!(
        find("p", "rusqlite2 my_rusqlite", &["rusqlite"], ""),
        Vec::<Problem>::new()
    );
    assert_eq!(
        find("p", "x\nuse rusqlite::a;", &["rusqlite"], "w"),
        ["p:2: `rusqlite`: w"]
    );
}
