//! Where in the text of a JSON file a field stands, for messages that an editor can jump to.

/// A place in a text: line and column from 1, the column in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spot {
    pub line: usize,
    pub column: usize,
}

/// Every field of the top object and what is in it, by paths such as `secrets[0].origin`; fields at their name, entries
/// of lists at their value. `text` must be valid JSON; of other text, what could be read until it went wrong.
pub struct Spots {
    found: Vec<(String, Spot)>,
}

/// How deep values are followed. Manifests are three deep.
const DEPTH: usize = 16;
/// Longest path that is kept, in bytes. What a long one holds is not looked for: a manifest made to be bad could otherwise
/// fill the memory with paths.
const LONGEST: usize = 300;

impl Spots {
    pub fn of(text: &str) -> Self {
        let mut reader = Reader {
            rest: text.trim_start_matches('\u{feff}'),
            spot: Spot { line: 1, column: 1 },
            found: Vec::new(),
        };
        reader.value(Some(""), 0);
        Self { found: reader.found }
    }

    /// The place of `path`, or of the nearest thing around it that is there.
    pub fn find(&self, path: &str) -> Option<Spot> {
        let mut path = path;
        loop {
            if let Some((_, spot)) = self.found.iter().find(|(name, _)| name == path) {
                return Some(*spot);
            }
            path = &path[..path.rfind(['.', '['])?];
        }
    }
}

struct Reader<'a> {
    rest: &'a str,
    spot: Spot,
    found: Vec<(String, Spot)>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.rest = &self.rest[c.len_utf8()..];
        if c == '\n' {
            self.spot = Spot {
                line: self.spot.line + 1,
                column: 1,
            };
        } else {
            self.spot.column += 1;
        }
        Some(c)
    }

    fn space(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.take();
        }
    }

    /// A string with its escapes undone, `None` when there is none or it does not end.
    fn string(&mut self) -> Option<String> {
        if self.peek() != Some('"') {
            return None;
        }
        let whole = self.rest;
        self.take();
        loop {
            match self.take()? {
                '"' => break,
                '\\' => {
                    self.take()?;
                }
                _ => {}
            }
        }
        let quoted = &whole[..whole.len() - self.rest.len()];
        serde_json::from_str(quoted).ok()
    }

    /// Notes that `path` begins here. Gives it back where what is in it is worth noting too.
    fn note(&mut self, path: String, spot: Spot) -> Option<String> {
        if path.len() > LONGEST {
            return None;
        }
        self.found.push((path.clone(), spot));
        Some(path)
    }

    /// Reads over one value; `path` is its own, `None` where nothing in it is noted.
    fn value(&mut self, path: Option<&str>, depth: usize) -> Option<()> {
        self.space();
        if depth >= DEPTH {
            return None;
        }
        match self.peek()? {
            '{' => {
                self.take();
                loop {
                    self.space();
                    if self.peek()? == '}' {
                        self.take();
                        return Some(());
                    }
                    let spot = self.spot;
                    let name = self.string()?;
                    let inner = path.map(|path| match path {
                        "" => name,
                        path => format!("{path}.{name}"),
                    });
                    let inner = inner.and_then(|inner| self.note(inner, spot));
                    self.space();
                    (self.take()? == ':').then_some(())?;
                    self.value(inner.as_deref(), depth + 1)?;
                    self.comma()?;
                }
            }
            '[' => {
                self.take();
                for i in 0.. {
                    self.space();
                    if self.peek()? == ']' {
                        self.take();
                        return Some(());
                    }
                    let inner = path.and_then(|path| self.note(format!("{path}[{i}]"), self.spot));
                    self.value(inner.as_deref(), depth + 1)?;
                    self.comma()?;
                }
                None
            }
            '"' => self.string().map(drop),
            _ => {
                while self.peek().is_some_and(|c| !c.is_whitespace() && !",]}".contains(c)) {
                    self.take();
                }
                Some(())
            }
        }
    }

    fn comma(&mut self) -> Option<()> {
        self.space();
        if self.peek()? == ',' {
            self.take();
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_entries_are_found() {
        let text = "\u{feff}{\n  \"name\": \"é\\\"x\", \"permissions\": [\n    \"llm\",\n    \"stor\"\n  ],\n  \
                    \"secrets\": [{\"name\": \"a\", \"origin\": 5}], \"schedule\": {}\n}";
        let spots = Spots::of(text);
        let at = |path: &str| spots.find(path).map(|spot| (spot.line, spot.column));
        assert_eq!(at("name"), Some((2, 3)));
        assert_eq!(at("permissions"), Some((2, 19)));
        assert_eq!(at("permissions[0]"), Some((3, 5)));
        assert_eq!(at("permissions[1]"), Some((4, 5)));
        assert_eq!(at("secrets[0].origin"), Some((6, 29)));
        assert_eq!(at("secrets[0].reason"), Some((6, 15)), "the entry it is missing in");
        assert_eq!(at("schedule.intervalMs"), Some((6, 44)));
        assert_eq!(at("version"), None);
    }

    #[test]
    fn broken_text_gives_what_there_is() {
        for text in [
            "",
            "{",
            "{\"a\"",
            "{\"a\":",
            "[[[",
            "{\"a\": 1, b",
            "\"",
            "{\"a\": [1, {\"b\": ",
        ] {
            Spots::of(text);
        }
        let deep = format!("{{\"a\": {}", "[".repeat(100_000));
        assert!(Spots::of(&deep).find("a").is_some());
        let wide = format!("{{\"{}\": [{}0], \"b\": 1}}", "k".repeat(100_000), "0,".repeat(70_000));
        let spots = Spots::of(&wide);
        assert!(spots.find("b").is_some() && spots.found.len() == 1);
    }
}
