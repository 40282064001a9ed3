//! `cargo xtask docs`: the tables in SECURITY.md and in the interface that are printed from data. `--write` writes them, without it a
//! difference is an error.

use std::fs;

use crate::place::Place;
use crate::step::{self, cargo};

const FILE: &str = "SECURITY.md";
/// The shell's own copy of what app pages may use: a mistake in the engine's check is then not yet a way in.
const PAGES: &str = "ui/src/frames/access.json";
/// What authors send to models and get back.
const SCHEMA: &str = "docs/llm.schema.json";
const BEGIN: &str = "<!-- access table: written by `cargo xtask docs --write` -->";
const END: &str = "<!-- end of access table -->";

pub fn docs(place: &Place, args: &[String]) -> Result<(), String> {
    let write = match args {
        [] => false,
        [only] if only == "--write" => true,
        _ => return Err("`cargo xtask docs` takes nothing but --write".into()),
    };
    let path = place.root.join(FILE);
    let text = fs::read_to_string(&path).map_err(|e| format!("{FILE} cannot be read: {e}"))?;
    println!("\n==> docs: the access table in {FILE} and in {PAGES}");
    settle(place, FILE, &text, &replace(&text, &printed(place, &[])?)?, write)?;
    let pages = fs::read_to_string(place.root.join(PAGES)).unwrap_or_default();
    settle(place, PAGES, &pages, &printed(place, &["--pages"])?, write)?;
    println!("\n==> docs: the shapes of model requests in {SCHEMA}");
    let schema = fs::read_to_string(place.root.join(SCHEMA)).unwrap_or_default();
    let example = [
        "run",
        "--quiet",
        "--locked",
        "--package",
        "providers",
        "--example",
        "llm-schema",
    ];
    let wanted = step::output(cargo(&place.root, &example)).map_err(|e| {
        format!("the schema could not be printed; it comes from src-tauri/crates/providers/src/schema.rs\n{e}")
    })?;
    settle(place, SCHEMA, &schema, &wanted, write)
}

/// What the engine's example prints of its table.
fn printed(place: &Place, args: &[&str]) -> Result<String, String> {
    let mut all = vec![
        "run",
        "--quiet",
        "--locked",
        "--package",
        "engine",
        "--example",
        "access-table",
        "--",
    ];
    all.extend(args);
    step::output(cargo(&place.root, &all)).map_err(|e| {
        format!(
            "the access table could not be printed; it comes from src-tauri/crates/engine/examples/access-table.rs\n{e}"
        )
    })
}

/// Writes what is wanted, or says that the file differs from it.
fn settle(place: &Place, file: &str, text: &str, wanted: &str, write: bool) -> Result<(), String> {
    if wanted == text {
        println!("{file} is as the data says");
    } else if write {
        fs::write(place.root.join(file), wanted).map_err(|e| format!("{file} cannot be written: {e}"))?;
        println!("{file}: written");
    } else {
        return Err(format!(
            "{file} is not what the program says; run `cargo xtask docs --write` and look at the difference"
        ));
    }
    Ok(())
}

/// The text with what stands between the markers replaced by `table`.
fn replace(text: &str, table: &str) -> Result<String, String> {
    let missing = || format!("{FILE} must hold the two lines\n{BEGIN}\n{END}");
    let begin = text.find(BEGIN).ok_or_else(missing)? + BEGIN.len();
    let end = begin + text[begin..].find(END).ok_or_else(missing)?;
    if !table.lines().any(|line| line.starts_with('|')) {
        return Err(format!("what was printed for {FILE} is no Markdown table"));
    }
    Ok(format!("{}\n\n{}\n\n{}", &text[..begin], table.trim(), &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_between_the_markers_and_settles() {
        let text = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        let once = replace(&text, "| x |\n").expect("markers are there");
        assert_eq!(once, format!("a\n{BEGIN}\n\n| x |\n\n{END}\nb\n"));
        assert_eq!(replace(&once, "| x |").expect("markers are there"), once);
        assert!(replace("no markers", "| x |").is_err());
        assert!(replace(&text, "an error message").is_err());
    }
}
