//! The file of keys that `config.toml` names, for servers: readable by whoever runs Chrysalis, and by no one else.

use std::path::{Path, PathBuf};

use crate::disk::{self, Private};
use crate::{Bound, Secret};

const HEAD: &str =
    "# Keys of Chrysalis, one a line: what it is for, where it may be sent, the key. Keep the mode at 0600.\n";

pub(crate) struct PlainFile {
    path: PathBuf,
}

impl PlainFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        disk::tidy(&path);
        Self { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it can be used, as far as that shows without writing.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.lines().map(|_| ())
    }

    pub(crate) fn get(&self, id: &str) -> Result<Option<(Bound, Secret)>, String> {
        let bytes = self.lines()?;
        for line in bytes.expose_to_net().split(|byte| *byte == b'\n') {
            let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            if words.next() != Some(id.as_bytes()) {
                continue;
            }
            let (Some(bound), Some(key), None) = (words.next(), words.next(), words.next()) else {
                return Err(self.damaged(id));
            };
            let bound = std::str::from_utf8(bound).ok().and_then(|text| Bound::parse(text).ok());
            return match bound {
                Some(bound) => Ok(Some((bound, Secret::from_bytes(key.to_vec())))),
                None => Err(self.damaged(id)),
            };
        }
        Ok(None)
    }

    pub(crate) fn put(&self, id: &str, bound: &Bound, key: &Secret) -> Result<(), String> {
        if id.is_empty() || id.starts_with('#') || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!(
                "\"{}\" cannot be a name in {}",
                id.escape_debug(),
                self.path.display()
            ));
        }
        let line = format!("{id}\t{bound}\t").into_bytes();
        self.replace(id, Some((line, key)))
    }

    /// Succeeds when nothing is left under this id.
    pub(crate) fn erase(&self, id: &str) -> Result<(), String> {
        match self.names()?.iter().any(|name| name == id) {
            true => self.replace(id, None),
            false => Ok(()),
        }
    }

    pub(crate) fn names(&self) -> Result<Vec<String>, String> {
        let bytes = self.lines()?;
        let lines = bytes.expose_to_net().split(|byte| *byte == b'\n');
        let names = lines.filter_map(|line| line.split(u8::is_ascii_whitespace).find(|word| !word.is_empty()));
        Ok(names
            .filter(|name| !name.starts_with(b"#"))
            .filter_map(|name| String::from_utf8(name.to_vec()).ok())
            .collect())
    }

    /// The file, or nothing where there is none yet.
    fn lines(&self) -> Result<Secret, String> {
        Ok(disk::read(&self.path, Private::Strict)?.unwrap_or_else(|| Secret::new(HEAD.into())))
    }

    fn damaged(&self, id: &str) -> String {
        format!(
            "the line of {id} in {} is not a name, an address and a key",
            self.path.display()
        )
    }

    fn replace(&self, id: &str, new: Option<(Vec<u8>, &Secret)>) -> Result<(), String> {
        let old = self.lines()?;
        let old = old.expose_to_net();
        if is_strangers(old) {
            return Err(format!(
                "no line of {} is a name, an address and a key, so it is somebody else's; if it is yours, empty it",
                self.path.display()
            ));
        }
        let more = new
            .as_ref()
            .map_or(0, |(line, key)| line.len() + key.expose_to_net().len() + 1);
        // All the space at once: growing would leave copies of keys behind.
        let mut bytes = Vec::with_capacity(old.len() + more + 1);
        for line in old.split_inclusive(|byte| *byte == b'\n') {
            let name = line.split(u8::is_ascii_whitespace).find(|word| !word.is_empty());
            if name != Some(id.as_bytes()) {
                bytes.extend_from_slice(line);
            }
        }
        if !bytes.is_empty() && !bytes.ends_with(b"\n") {
            bytes.push(b'\n');
        }
        if let Some((line, key)) = new {
            bytes.extend_from_slice(&line);
            bytes.extend_from_slice(key.expose_to_net());
            bytes.push(b'\n');
        }
        let bytes = Secret::from_bytes(bytes);
        disk::write(&self.path, bytes.expose_to_net())
    }
}

/// Whether there is something in it, and none of it is ours.
fn is_strangers(bytes: &[u8]) -> bool {
    let is_ours = |words: &[&[u8]]| match words {
        [_, bound, _] => std::str::from_utf8(bound).is_ok_and(|text| Bound::parse(text).is_ok()),
        _ => false,
    };
    let lines = bytes.split(|byte| *byte == b'\n').map(|line| {
        let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        words.collect::<Vec<_>>()
    });
    let lines = lines.filter(|words| words.first().is_some_and(|word| !word.starts_with(b"#")));
    let judged: Vec<bool> = lines.map(|words| is_ours(&words)).collect();
    !bytes.starts_with(HEAD.as_bytes()) && !judged.is_empty() && !judged.contains(&true)
}
