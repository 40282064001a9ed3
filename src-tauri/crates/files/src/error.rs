use std::io;

use crate::NameError;

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Folder,
    /// A symbolic link (on Windows also a junction).
    Link,
    /// A pipe, socket or device.
    Special,
}

impl Kind {
    pub(crate) fn of(kind: cap_std::fs::FileType) -> Self {
        if kind.is_symlink() {
            Self::Link
        } else if kind.is_dir() {
            Self::Folder
        } else if kind.is_file() {
            Self::File
        } else {
            Self::Special
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::File => "is a file",
            Self::Folder => "is a folder",
            Self::Link => "is a symbolic link: links are not followed here, put the file itself in its place",
            Self::Special => "is a pipe, socket or device, not a file",
        }
    }
}

/// Something could not be read or written. `path` is relative to the folder that was asked, never absolute, so that
/// the text may be shown to a guest.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("\"{path}\" is not a usable path: {reason}")]
    Name { path: String, reason: NameError },
    #[error("\"{path}\" does not exist")]
    Missing { path: String },
    #[error("\"{path}\" {}", kind.words())]
    Wrong { path: String, kind: Kind },
    /// A second name for the same file: it may belong to somewhere else.
    #[error("\"{path}\" has more than one name on disk (a hard link): put a copy in its place")]
    Shared { path: String },
    #[error("\"{path}\" is larger than the {limit} bytes allowed here")]
    Large { path: String, limit: u64 },
    #[error("\"{path}\" holds more than {limit} files and folders")]
    Crowded { path: String, limit: usize },
    #[error("the files together are larger than the {limit} bytes allowed here")]
    Total { limit: u64 },
    #[error("\"{path}\" is there already")]
    Exists { path: String },
    /// On systems that ignore case the two names are one file.
    #[error(
        "\"{path}\" differs from \"{other}\", which is there already, only by case or by letters that cannot be seen, and \
         would be the same file on many computers: use that spelling or another name"
    )]
    Clash { path: String, other: String },
    #[error("\"{path}\" cannot be moved into \"{into}\", which is inside it")]
    Inside { path: String, into: String },
    #[error("\"{path}\" itself cannot be removed, replaced or renamed: name what is in it")]
    Root { path: String },
    #[error(
        "a transaction on these files is under way and did not end in time: end it first, or make the change in it"
    )]
    Busy,
    #[error("a transaction may make at most {limit} changes: commit it in parts")]
    Long { limit: usize },
    #[error("\"{path}\" could not be used: {source}")]
    Io { path: String, source: io::Error },
}

impl FileError {
    /// Whether the answer is simply that nothing stands there.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing { .. })
    }

    /// The same with its paths shown as those of an app's data folder: `[app-data]/a.txt`, or `[app-data]` for the folder
    /// itself. A path that could not be used at all is shown as it was given.
    pub(crate) fn in_app_data(mut self) -> Self {
        match &mut self {
            Self::Missing { path }
            | Self::Wrong { path, .. }
            | Self::Shared { path }
            | Self::Large { path, .. }
            | Self::Crowded { path, .. }
            | Self::Exists { path }
            | Self::Root { path }
            | Self::Io { path, .. } => show(path),
            Self::Clash { path, other } | Self::Inside { path, into: other } => {
                show(path);
                show(other);
            }
            Self::Name { .. } | Self::Total { .. } | Self::Busy | Self::Long { .. } => {}
        }
        self
    }

    /// The same about `path`.
    pub(crate) fn of(mut self, path: &str) -> Self {
        match &mut self {
            Self::Missing { path: at }
            | Self::Wrong { path: at, .. }
            | Self::Shared { path: at }
            | Self::Large { path: at, .. }
            | Self::Crowded { path: at, .. }
            | Self::Exists { path: at }
            | Self::Root { path: at }
            | Self::Name { path: at, .. }
            | Self::Clash { path: at, .. }
            | Self::Inside { path: at, .. }
            | Self::Io { path: at, .. } => path.clone_into(at),
            Self::Total { .. } | Self::Busy | Self::Long { .. } => {}
        }
        self
    }

    pub(crate) fn name(path: &str, reason: NameError) -> Self {
        // A refused path may be of any length; what is shown of it is not.
        let path = path.chars().take(200).collect();
        Self::Name { path, reason }
    }

    pub(crate) fn io(path: &str, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => Self::Missing { path },
            io::ErrorKind::AlreadyExists => Self::Exists { path },
            _ => Self::Io { path, source },
        }
    }
}

fn show(path: &mut String) {
    *path = match path.as_str() {
        "" | "." => "[app-data]".to_owned(),
        _ => format!("[app-data]/{path}"),
    };
}
