//! The house rules that a search can see: the invariants of ARCHITECTURE.md, kept by reading the repository itself.
//!
//! Each rule is a pure function from a path and a text to what is wrong there, one test that runs it over the real
//! files, and one that shows it a planted violation. A rule that found no file to look at fails too.

mod documents;
mod habits;
mod launcher;
mod rooms;
mod source;

use std::fs;
use std::path::Path;

/// One thing that is wrong, as `path:line: what`.
pub type Problem = String;

pub struct File {
    /// Relative to the repository, with `/`.
    pub path: String,
    pub text: String,
}

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All text files of the repository, without what is built or installed.
pub fn files() -> Vec<File> {
    const BUILT: &[&str] = &["target", "node_modules", "dist", "gen", "permissions", ".git"];
    let mut found = Vec::new();
    let mut waiting = vec![root().to_path_buf()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder)
            .expect("a folder of the repository can be read")
            .flatten()
        {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type().expect("the kind of an entry can be told");
            if kind.is_dir() && !BUILT.contains(&name.as_str()) {
                waiting.push(path);
            } else if kind.is_file()
                && let Ok(text) = fs::read_to_string(&path)
            {
                let relative = path
                    .strip_prefix(root())
                    .expect("it lies inside")
                    .to_string_lossy()
                    .replace('\\', "/");
                found.push(File { path: relative, text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(
        found.len() > 50,
        "only {} files found in {}",
        found.len(),
        root().display()
    );
    found
}

/// Runs a rule over the files that `applies` picks, and fails with everything it found.
pub fn keep(applies: impl Fn(&str) -> bool, rule: impl Fn(&str, &str) -> Vec<Problem>) {
    let files: Vec<File> = files().into_iter().filter(|file| applies(&file.path)).collect();
    assert!(!files.is_empty(), "this rule looked at nothing: has a folder moved?");
    let problems: Vec<Problem> = files.iter().flat_map(|file| rule(&file.path, &file.text)).collect();
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

/// Shows a rule a text that breaks it and one that does not.
pub fn check(rule: impl Fn(&str, &str) -> Vec<Problem>, path: &str, bad: &str, good: &str) {
    assert!(!rule(path, bad).is_empty(), "not caught in {path}:\n{bad}");
    let found = rule(path, good);
    assert!(found.is_empty(), "wrongly caught: {found:?}");
}
