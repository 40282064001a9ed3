use std::io;

use cap_fs_ext::DirExt;

use crate::{FileError, Folder, Kind};

/// Folders held open at once while a tree is removed.
const OPEN: usize = 24;

impl Folder {
    /// Removes the file, link or folder at `path`, a folder with everything in it. A link is removed itself; what it
    /// points to is untouched. Nothing at `path` is [`FileError::Missing`].
    ///
    /// Any depth is removed, even paths too long to be named, which a guest can make: what stands too deep is first
    /// moved up.
    pub fn remove(&self, path: &str) -> Result<(), FileError> {
        let (parent, name) = self.parent(path)?;
        parent.remove_entry(name).map_err(|e| FileError::io(path, e))
    }

    /// As [`Folder::remove`] for an entry of this folder, whatever its name.
    pub(crate) fn remove_entry(&self, name: &str) -> io::Result<()> {
        let about = self.dir.symlink_metadata(name)?;
        if Kind::of(about.file_type()) != Kind::Folder {
            return self.dir.remove_file_or_symlink(name);
        }
        let top = Self::of(self.dir.open_dir_nofollow(name)?);
        let mut moved = 0u64;
        // Each pass may move folders up into `top`; a pass that moves none leaves it empty.
        loop {
            let before = moved;
            clear(&top, &top, 0, &mut moved)?;
            if moved == before {
                break;
            }
        }
        self.dir.remove_dir(name)
    }
}

fn clear(folder: &Folder, top: &Folder, depth: usize, moved: &mut u64) -> io::Result<()> {
    for entry in folder.dir.entries()? {
        let entry = entry?;
        let name = entry.file_name();
        if Kind::of(entry.file_type()?) != Kind::Folder {
            folder.dir.remove_file_or_symlink(&name)?;
        } else if depth < OPEN {
            let inner = Folder::of(folder.dir.open_dir_nofollow(&name)?);
            clear(&inner, top, depth + 1, moved)?;
            drop(inner);
            folder.dir.remove_dir(&name)?;
        } else {
            *moved += 1;
            let fresh = format!("moved-{moved}-{}", crate::write::random());
            folder.dir.rename(&name, &top.dir, fresh)?;
        }
    }
    Ok(())
}
