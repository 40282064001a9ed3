use cap_std::fs::Dir;

use crate::{FileError, Folder, Kind, check_path};

/// Bounds of [`Folder::walk`].
#[derive(Debug, Clone, Copy)]
pub struct WalkLimits<'a> {
    /// Most files, and most folders.
    pub files: usize,
    /// Most bytes of all files together.
    pub bytes: u64,
    /// Names that are passed over wherever they stand, with all that is in them.
    pub skip: &'a [&'a str],
}

/// A file that [`Folder::walk`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Relative to the folder that was walked, `/` between names; passes [`check_path`].
    pub path: String,
    /// Bytes, when it was looked at.
    pub len: u64,
}

impl Folder {
    /// Every file below this folder, sorted by path.
    ///
    /// Anything that is not a plain file or folder with a portable name is an error that names it, and so is passing a
    /// limit. What a file holds is not looked at: [`Folder::read`] checks it again.
    pub fn walk(&self, limits: WalkLimits<'_>) -> Result<Vec<Found>, FileError> {
        let mut found = Vec::new();
        let mut bytes = 0u64;
        let mut folders = 0usize;
        // Paths rather than handles wait here, so that a wide tree does not use up the descriptors.
        let mut waiting = vec![String::new()];
        let crowded = || FileError::Crowded {
            path: ".".into(),
            limit: limits.files,
        };
        while let Some(at) = waiting.pop() {
            folders += 1;
            if folders > limits.files {
                return Err(crowded());
            }
            let folder = if at.is_empty() { self.clone() } else { self.sub(&at)? };
            for entry in folder.list_at(if at.is_empty() { "." } else { &at }, crate::MAX_ENTRIES)? {
                if limits.skip.contains(&entry.name.as_str()) {
                    continue;
                }
                let path = if at.is_empty() {
                    entry.name.clone()
                } else {
                    format!("{at}/{}", entry.name)
                };
                check_path(&path).map_err(|e| FileError::name(&path, e))?;
                match entry.kind {
                    Kind::Folder => waiting.push(path),
                    Kind::File => {
                        let len = length(&folder.dir, &entry.name, &path)?;
                        bytes = bytes.saturating_add(len);
                        if bytes > limits.bytes {
                            return Err(FileError::Total { limit: limits.bytes });
                        }
                        found.push(Found { path, len });
                        if found.len() > limits.files {
                            return Err(crowded());
                        }
                    }
                    kind @ (Kind::Link | Kind::Special) => return Err(FileError::Wrong { path, kind }),
                }
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }
}

fn length(dir: &Dir, name: &str, path: &str) -> Result<u64, FileError> {
    let about = dir.symlink_metadata(name).map_err(|e| FileError::io(path, e))?;
    Ok(about.len())
}
