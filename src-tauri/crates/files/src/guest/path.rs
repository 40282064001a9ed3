use crate::{FileError, NameError, check_path, fold};

/// Where unfinished files and removed folders stand until they are done; directly in the data folder.
pub(super) const WRITING: &str = ".writing-now";
/// Begins the name of what a transaction keeps, directly in the data folder.
pub(super) const TXN: &str = ".txn-";

/// Whether a name is one of ours, also as a system that ignores case would read it.
pub(super) fn is_ours(name: &str) -> bool {
    let folded = fold(name);
    folded.starts_with(".writing-") || folded.starts_with(TXN)
}

/// A guest's path in its one spelling: names with `/` between them, or nothing for the data folder itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GuestPath(String);

impl GuestPath {
    /// Anything, the data folder included.
    pub fn folder(path: &str) -> Result<Self, FileError> {
        let plain = spelled(path);
        let plain = match plain.strip_suffix('/') {
            Some(shorter) if !shorter.is_empty() => shorter,
            _ => plain,
        };
        if matches!(plain, "" | ".") {
            return Ok(Self(String::new()));
        }
        Self::checked(path, plain)
    }

    /// Anything but the data folder itself.
    pub fn below(path: &str) -> Result<Self, FileError> {
        let root = || FileError::Root { path: String::new() }.in_app_data();
        if path == "/" {
            return Err(root());
        }
        let found = Self::folder(path)?;
        if found.is_root() { Err(root()) } else { Ok(found) }
    }

    /// A file: a slash at the end would say that it is a folder.
    pub fn file(path: &str) -> Result<Self, FileError> {
        Self::checked(path, spelled(path))
    }

    fn checked(given: &str, plain: &str) -> Result<Self, FileError> {
        let names = check_path(plain).map_err(|e| FileError::name(given, e))?;
        if names.into_iter().any(is_ours) {
            return Err(FileError::name(given, NameError::Ours));
        }
        Ok(Self(plain.to_owned()))
    }

    pub fn text(&self) -> &str {
        &self.0
    }

    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    pub fn names(&self) -> Vec<&str> {
        if self.is_root() {
            return Vec::new();
        }
        self.0.split('/').collect()
    }

    /// The names above the last, and the last; for a path that is not the root.
    pub fn split(&self) -> (Vec<&str>, &str) {
        let mut names = self.names();
        let last = names.pop().unwrap_or_default();
        (names, last)
    }

    pub fn missing(&self) -> FileError {
        let path = self.0.clone();
        FileError::Missing { path }.in_app_data()
    }
}

fn spelled(path: &str) -> &str {
    let mut plain = path;
    while let Some(rest) = plain.strip_prefix("./") {
        plain = rest;
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_has_one_spelling() {
        for (given, want) in [
            ("a/b", "a/b"),
            ("./a", "a"),
            ("././a/b", "a/b"),
            ("a/", "a"),
            ("./a/", "a"),
            (".", ""),
            ("./", ""),
            ("", ""),
            ("__media/x", "__media/x"),
            (".hidden", ".hidden"),
            (".writing", ".writing"),
        ] {
            assert_eq!(GuestPath::folder(given).unwrap().text(), want, "{given:?}");
        }
        for given in [
            "/a",
            "/",
            "//",
            "a//",
            "a//b",
            "./..",
            "../a",
            "a/../b",
            "a/./b",
            "a\\b",
            "\\a",
            ".//a",
            "C:a",
            ".writing-x",
            ".txn-1/a",
            "a/.txn-1",
            ".TXN-1",
            ".Writing-Now",
            ".tx\u{200b}n-1",
        ] {
            let error = GuestPath::folder(given).unwrap_err().to_string();
            assert!(error.contains("is not a usable path"), "{given:?}: {error}");
        }
        for given in ["", ".", "./", "a/"] {
            assert!(GuestPath::file(given).is_err(), "{given:?}");
        }
        for given in ["", ".", "/", "./"] {
            let error = GuestPath::below(given).unwrap_err().to_string();
            assert!(error.contains("\"[app-data]\" itself"), "{given:?}: {error}");
        }
    }
}
