use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::path::Path;

use files::{FileError, Folder, WalkLimits};
use policy::{AppId, PluginId};

use crate::code::content_hash;
use crate::manifest::{AppKind, AppManifest, MAX_MANIFEST};
use crate::pages::entry_page;
use crate::workspace::{MAX_SOURCE, PluginError, PluginOnDisk, WorkspaceError};

/// Most files of one app.
pub const MAX_FILES: usize = 5_000;
/// Most bytes of one app's files together. All of them are in memory while a person decides.
pub const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// Left out wherever they stand: history and packages can be fetched again, and neither is part of the app.
const SKIP: &[&str] = &[".git", "node_modules"];

/// An app read into memory and checked, before anything is written: what a person is shown is what
/// [`crate::workspace::Workspace::commit`] writes, whatever happens to the folder meanwhile.
pub struct Staged {
    /// The id to add it under, unless the person names another.
    pub id: AppId,
    pub manifest: AppManifest,
    /// Sorted by id.
    pub plugins: Vec<PluginOnDisk>,
    /// Content hash over every file, 64 hex digits ([`content_hash`]).
    pub head: String,
    files: BTreeMap<String, Vec<u8>>,
}

impl fmt::Debug for Staged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Staged({} {} with {} files)", self.id, self.head, self.files.len())
    }
}

impl Staged {
    /// Reads the app in `folder`, a path the machine's owner named.
    ///
    /// `id` is what the owner asked for; without one the folder's name is taken, in lower case and with spaces as `-`.
    /// Refuses links, pipes, hard links, names that are not portable, more than [`MAX_FILES`] files or [`MAX_BYTES`]
    /// bytes, a broken manifest or plugin, and a missing page. `.git` and `node_modules` are left out.
    pub fn from_folder(folder: &Path, id: Option<&AppId>) -> Result<Self, WorkspaceError> {
        let shown = || folder.display().to_string();
        let open = Folder::open_ambient(folder).map_err(|error| WorkspaceError::Folder { folder: shown(), error })?;
        let id = match id {
            Some(id) => id.clone(),
            None => {
                // Resolved, so that "." gives a name too.
                let full = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
                let name = full
                    .file_name()
                    .map(|n| n.to_string_lossy().into_owned())
                    .unwrap_or_default();
                let id = name.trim().to_lowercase().replace(' ', "-");
                AppId::parse(&id).map_err(|error| WorkspaceError::Id { name, error })?
            }
        };
        let found = open.walk(WalkLimits {
            files: MAX_FILES,
            bytes: MAX_BYTES,
            skip: SKIP,
        })?;
        let mut files = Vec::with_capacity(found.len());
        let mut left = MAX_BYTES;
        for file in found {
            // The length seen by the walk is not trusted: the file may have grown since.
            let bytes = open.read(&file.path, left).map_err(|error| match error {
                FileError::Large { .. } => FileError::Total { limit: MAX_BYTES },
                other => other,
            })?;
            left -= bytes.len() as u64;
            files.push((file.path, bytes));
        }
        Self::from_files(id, files)
    }

    /// As [`Staged::from_folder`], for files that are in memory: those shipped in the program, or unpacked.
    pub fn from_files(id: AppId, files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Result<Self, WorkspaceError> {
        let mut kept = BTreeMap::new();
        let mut bytes = 0u64;
        for (path, content) in files {
            let names = files::check_path(&path).map_err(|reason| FileError::Name {
                path: path.chars().take(200).collect(),
                reason,
            })?;
            if names.iter().any(|name| SKIP.contains(name)) {
                continue;
            }
            bytes += content.len() as u64;
            if bytes > MAX_BYTES {
                return Err(FileError::Total { limit: MAX_BYTES }.into());
            }
            if kept.insert(path.clone(), content).is_some() {
                return Err(FileError::Exists { path }.into());
            }
            if kept.len() > MAX_FILES {
                let path = ".".into();
                return Err(FileError::Crowded { path, limit: MAX_FILES }.into());
            }
        }
        no_clash(kept.keys())?;
        let manifest = kept.get("manifest.json").ok_or(WorkspaceError::NotAnApp)?;
        within("manifest.json", manifest, MAX_MANIFEST)?;
        let manifest = AppManifest::parse(manifest)?;
        if manifest.kind == AppKind::Web {
            let has_dist = kept.keys().any(|path| path.starts_with("dist/"));
            let package = kept.get("package.json").map(Vec::as_slice);
            entry_page(has_dist, package, |page| kept.contains_key(page)).map_err(WorkspaceError::NoPage)?;
        }
        Ok(Self {
            id,
            manifest,
            plugins: plugins(&kept)?,
            head: content_hash(kept.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice()))),
            files: kept,
        })
    }

    /// Every file with its path, sorted.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice()))
    }
}

/// The files of a folder that was built into the program, for [`Staged::from_files`].
pub fn embedded_files(folder: &include_dir::Dir<'_>) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let mut waiting = vec![folder];
    while let Some(at) = waiting.pop() {
        waiting.extend(at.dirs());
        for file in at.files() {
            // Paths are relative to the outermost folder, and carry the separator of the machine that built.
            let path = file.path().strip_prefix(folder.path()).unwrap_or(file.path());
            let path = path.to_string_lossy().replace(std::path::MAIN_SEPARATOR, "/");
            files.push((path, file.contents().to_vec()));
        }
    }
    files
}

fn within(path: &str, bytes: &[u8], limit: u64) -> Result<(), FileError> {
    let path = path.to_owned();
    if bytes.len() as u64 > limit {
        Err(FileError::Large { path, limit })
    } else {
        Ok(())
    }
}

fn plugins(files: &BTreeMap<String, Vec<u8>>) -> Result<Vec<PluginOnDisk>, WorkspaceError> {
    let mut ids = BTreeSet::new();
    for path in files.keys() {
        if let ["plugins", id, "manifest.json" | "plugin.js"] = path.split('/').collect::<Vec<_>>()[..]
            && !id.starts_with('.')
        {
            ids.insert(id);
        }
    }
    let read = |name: &str| -> Result<PluginOnDisk, PluginError> {
        let id = PluginId::parse(name)?;
        let part = |file: &str, limit: u64, missing: PluginError| {
            let path = format!("plugins/{name}/{file}");
            let bytes = files.get(&path).ok_or(missing)?;
            within(&path, bytes, limit)?;
            Ok::<_, PluginError>(bytes.clone())
        };
        let manifest = part("manifest.json", MAX_MANIFEST, PluginError::NoManifest)?;
        let source = part("plugin.js", MAX_SOURCE, PluginError::NoSource)?;
        PluginOnDisk::of(id, &manifest, source)
    };
    let each = ids.into_iter().map(|name| {
        read(name).map_err(|error| WorkspaceError::Plugin {
            id: name.to_owned(),
            error,
        })
    });
    each.collect()
}

/// Two names that some system takes for one would overwrite each other there, folders' names among them; and a file
/// cannot stand where a folder does.
fn no_clash<'a>(paths: impl Iterator<Item = &'a String>) -> Result<(), WorkspaceError> {
    let mut seen: HashMap<String, (&str, bool)> = HashMap::new();
    for path in paths {
        let ends = path.match_indices('/').map(|(at, _)| at);
        for end in ends.chain([path.len()]) {
            let (part, is_file) = (&path[..end], end == path.len());
            let (first, was_file) = *seen.entry(files::fold(part)).or_insert((part, is_file));
            if first != part || was_file != is_file {
                return Err(WorkspaceError::Clash {
                    one: first.to_owned(),
                    other: path.clone(),
                });
            }
        }
    }
    Ok(())
}
