use std::fmt;

/// Longest single name, in bytes of UTF-8: what ext4, APFS and NTFS all take.
pub const MAX_NAME: usize = 255;
/// Longest path relative to its folder, in bytes.
pub const MAX_PATH: usize = 1024;
/// Most names in one path.
pub const MAX_DEPTH: usize = 32;

/// Why a name or path was refused. The text says which rule it broke; whoever shows it adds the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error("a name in it is empty")]
    Empty,
    #[error("it is absolute: paths here are relative to their folder")]
    Absolute,
    #[error("\".\" and \"..\" are not names")]
    Dots,
    #[error("it contains a backslash: folders are separated by \"/\"")]
    Backslash,
    #[error("it contains a colon, which names a drive or a hidden stream on Windows")]
    Colon,
    #[error("it contains a control character")]
    Control,
    #[error("it contains one of < > \" | ? *, which cannot be in a file name on Windows")]
    Forbidden,
    #[error("a name in it ends with a dot or a space, which Windows drops")]
    Ending,
    #[error("a name in it is a device on Windows, such as CON, NUL or COM1")]
    Device,
    #[error("a name in it is longer than {MAX_NAME} bytes")]
    LongName,
    #[error("it is longer than {MAX_PATH} bytes")]
    LongPath,
    #[error("it is more than {MAX_DEPTH} folders deep")]
    Deep,
    #[error("names that begin with .writing- or .txn- are kept for unfinished changes: choose another")]
    Ours,
}

/// One file or folder name that means the same, and only itself, on Linux, macOS and Windows.
///
/// Workspaces travel between machines, so the rules of all three systems hold on each.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortableName(String);

impl PortableName {
    /// Accepts a single name; `..foo.txt` is one, `..` is not.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        if text.contains('/') {
            return Err(NameError::Absolute);
        }
        check_name(text).map(|()| Self(text.to_owned()))
    }
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PortableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl fmt::Display for PortableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The names of a path relative to a folder, each checked as [`PortableName::parse`] does.
///
/// Refuses an empty path, an absolute one, one over [`MAX_PATH`] bytes or [`MAX_DEPTH`] names, and any empty name, so
/// that each file has exactly one spelling.
pub fn check_path(path: &str) -> Result<Vec<&str>, NameError> {
    if path.len() > MAX_PATH {
        return Err(NameError::LongPath);
    }
    if path.starts_with(['/', '\\']) {
        return Err(NameError::Absolute);
    }
    let names: Vec<&str> = path.split('/').collect();
    if names.len() > MAX_DEPTH {
        return Err(NameError::Deep);
    }
    for name in &names {
        check_name(name)?;
    }
    Ok(names)
}

fn check_name(name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name == "." || name == ".." {
        return Err(NameError::Dots);
    }
    if name.len() > MAX_NAME {
        return Err(NameError::LongName);
    }
    for letter in name.chars() {
        match letter {
            '\\' => return Err(NameError::Backslash),
            ':' => return Err(NameError::Colon),
            '<' | '>' | '"' | '|' | '?' | '*' => return Err(NameError::Forbidden),
            _ if letter.is_control() => return Err(NameError::Control),
            _ => {}
        }
    }
    if name.ends_with(['.', ' ']) {
        return Err(NameError::Ending);
    }
    if is_device(name) {
        return Err(NameError::Device);
    }
    Ok(())
}

/// Windows reads `nul`, `NUL.txt`, `nul .tar.gz` and `COM¹` all as devices: the part before the first dot counts,
/// without spaces at its end, in any case, and ISO 8859-1 superscript digits count as digits.
/// <https://learn.microsoft.com/windows/win32/fileio/naming-a-file>
fn is_device(name: &str) -> bool {
    let stem = name
        .split('.')
        .next()
        .unwrap_or(name)
        .trim_end_matches(' ')
        .to_ascii_lowercase();
    if matches!(
        stem.as_str(),
        "con" | "prn" | "aux" | "nul" | "conin$" | "conout$" | "clock$"
    ) {
        return true;
    }
    let Some(port) = stem.strip_prefix("com").or_else(|| stem.strip_prefix("lpt")) else {
        return false;
    };
    let mut rest = port.chars();
    let digit = rest
        .next()
        .is_some_and(|c| c.is_ascii_digit() || matches!(c, '¹' | '²' | '³'));
    digit && rest.next().is_none()
}

/// The form under which a system that ignores case, or letters that cannot be seen, may look a name up. Two names with
/// one form may be the same file there; compare guarded names in this form, never as they are spelled.
///
/// HFS+ skips the invisible letters of this list when it compares names (CVE-2014-9390).
pub fn fold(name: &str) -> String {
    let seen = name.chars().filter(|c| {
        !matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    });
    // Upper case first: it alone unfolds 'ſ', 'ﬁ' and the Kelvin sign to plain letters.
    seen.flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, want: Result<usize, NameError>) {
        assert_eq!(check_path(path).map(|names| names.len()), want, "{path:?}");
    }

    // ziglang/zig#24727, google/adk-js#621, Ne-Lexa/php-zip#100; over-blocking: appium#22772.
    #[test]
    fn regress_18_paths_that_climb() {
        use NameError::*;
        for (path, want) in [
            ("..\\..\\x", Err(Backslash)),
            ("scripts/..", Err(Dots)),
            ("C:x", Err(Colon)),
            ("\\\\srv\\s\\x", Err(Absolute)),
            ("/abs", Err(Absolute)),
            ("..", Err(Dots)),
            (".", Err(Dots)),
            ("a/./b", Err(Dots)),
            ("a//b", Err(Empty)),
            ("a/", Err(Empty)),
            ("", Err(Empty)),
            ("a\\b", Err(Backslash)),
            ("..foo.txt", Ok(1)),
            ("...foo", Ok(1)),
            ("a/..b/c", Ok(3)),
            (".hidden", Ok(1)),
        ] {
            check(path, want);
        }
    }

    // anomalyco/opencode#49137, migtools/crane#797, tutanota#2063.
    #[test]
    fn regress_21_names_windows_changes() {
        use NameError::*;
        for (path, want) in [
            ("CON", Err(Device)),
            ("nul.txt", Err(Device)),
            ("a/Aux", Err(Device)),
            ("prn.", Err(Ending)),
            ("nul .tar.gz", Err(Device)),
            ("COM1", Err(Device)),
            ("com0", Err(Device)),
            ("COM¹", Err(Device)),
            ("lpt³.log", Err(Device)),
            ("CONIN$", Err(Device)),
            ("a:b", Err(Colon)),
            ("file.txt::$DATA", Err(Colon)),
            ("x.", Err(Ending)),
            ("x ", Err(Ending)),
            ("x ./y", Err(Ending)),
            ("...", Err(Ending)),
            ("a\0b", Err(Control)),
            ("a\nb", Err(Control)),
            ("a\u{7f}", Err(Control)),
            ("a\u{85}", Err(Control)),
            ("what?", Err(Forbidden)),
            ("a*b", Err(Forbidden)),
            ("COM10", Ok(1)),
            ("com", Ok(1)),
            ("COM¹²", Ok(1)),
            ("console.log", Ok(1)),
            ("nullable", Ok(1)),
            (" x", Ok(1)),
            ("日本🦋.png", Ok(1)),
        ] {
            check(path, want);
        }
        check(&"n".repeat(300), Err(LongName));
        check(&"n".repeat(255), Ok(1));
        check(&vec!["n"; MAX_DEPTH].join("/"), Ok(MAX_DEPTH));
        check(&vec!["n"; MAX_DEPTH + 1].join("/"), Err(Deep));
        check(&vec!["n".repeat(200); 6].join("/"), Err(LongPath));
    }

    #[test]
    fn one_name_is_not_a_path() {
        assert!(PortableName::parse("a/b").is_err());
        assert_eq!(PortableName::parse("..foo.txt").unwrap().as_str(), "..foo.txt");
    }

    #[test]
    fn aliases_fold_together() {
        for (alias, plain) in [
            ("PLUGINS", "plugins"),
            ("plugin\u{17f}", "plugins"),
            ("pac\u{212a}age.json", "package.json"),
            ("mani\u{fb01}est", "manifiest"),
            ("\u{200c}.git", ".git"),
            ("da\u{ad}ta", "data"),
        ] {
            assert_eq!(fold(alias), plain, "{alias:?}");
        }
        assert_ne!(fold("plugin"), fold("plugins"));
    }
}
