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
        let about = parent.dir.symlink_metadata(name).map_err(|e| FileError::io(path, e))?;
        if Kind::of(about.file_type()) != Kind::Folder {
            return parent
                .dir
                .remove_file_or_symlink(name)
                .map_err(|e| FileError::io(path, e));
        }
        let top = parent.descend(name, &[name])?;
        let mut moved = 0u64;
        // Each pass may move folders up into `top`; a pass that moves none leaves it empty.
        loop {
            let before = moved;
            clear(&top, &top, 0, &mut moved).map_err(|e| FileError::io(path, e))?;
            if moved == before {
                break;
            }
        }
        parent.dir.remove_dir(name).map_err(|e| FileError::io(path, e))
    }
}

fn clear(folder: &Folder, top: &Folder, depth: usize, moved: &mut u64) -> std::io::Result<()> {
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
