//! Files that pages hand to the person: asked for above the page, written under a safe and free name.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Largest file a page may save, in bytes.
pub const MAX_DOWNLOAD: usize = 64 * 1024 * 1024;
/// Longest name given to a file, in bytes; every usual file system allows 255.
const MAX_NAME: usize = 120;

/// The person's folder for downloads.
pub fn folder() -> Result<PathBuf, String> {
    dirs::download_dir()
        .or_else(|| dirs::home_dir().map(|home| home.join("Downloads")))
        .ok_or_else(|| "no Downloads folder is known: set XDG_DOWNLOAD_DIR or HOME".into())
}

/// A name that means the same on every system and nothing but a file in the folder it is put in: no path, no control
/// or direction-changing characters, no leading dot, no reserved device name.
pub fn safe_name(given: &str) -> String {
    let last = given.rsplit(['/', '\\']).next().unwrap_or_default();
    let kept: String = last
        .chars()
        .filter(|c| !c.is_control())
        .filter(
            |c| !matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'),
        )
        .map(|c| if "<>:\"|?*".contains(c) { '_' } else { c })
        .collect();
    let kept = kept.trim().trim_start_matches('.').trim_end_matches(['.', ' ']);
    let (stem, extension) = match kept.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() && extension.len() <= 16 => (stem, Some(extension)),
        _ => (kept, None),
    };
    let room = MAX_NAME - extension.map_or(0, |extension| extension.len() + 1);
    let mut stem = cut(stem, room).trim_end().to_owned();
    if stem.is_empty() {
        stem = "download".into();
    }
    let base = stem.split('.').next().unwrap_or_default().trim_end().to_lowercase();
    let device = matches!(base.as_str(), "con" | "prn" | "aux" | "nul" | "conin$" | "conout$")
        || ["com", "lpt"].iter().any(|port| {
            let rest = base.strip_prefix(port).unwrap_or_default();
            rest.chars().count() == 1 && rest.chars().all(|c| c.is_ascii_digit() || "¹²³".contains(c))
        });
    if device {
        stem.insert(0, '_');
    }
    match extension {
        Some(extension) => format!("{stem}.{extension}"),
        None => stem,
    }
}

fn cut(text: &str, limit: usize) -> &str {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Writes `data` into `folder` under `name` (from [`safe_name`]) or, when that is taken, `name (2)` and so on. Never
/// replaces a file, never follows a link, never makes the file executable.
pub fn save(folder: &Path, name: &str, data: &[u8]) -> io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let (stem, extension) = match name.rsplit_once('.') {
        Some((stem, extension)) => (stem, format!(".{extension}")),
        None => (name, String::new()),
    };
    for number in 1..1_000 {
        let path = match number {
            1 => folder.join(name),
            n => folder.join(format!("{stem} ({n}){extension}")),
        };
        let mut options = OpenOptions::new();
        // `create_new` refuses whatever is already there, a dangling link included.
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o644);
        let mut file = match options.open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(error),
        };
        return match file.write_all(data).and_then(|()| file.sync_all()) {
            Ok(()) => Ok(path),
            Err(error) => {
                let _ = fs::remove_file(&path);
                Err(error)
            }
        };
    }
    Err(io::Error::new(
        io::ErrorKind::AlreadyExists,
        "a thousand files of this name are there already",
    ))
}

/// A size as people read it.
pub fn size(bytes: usize) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (given, want) in [
            ("report.pdf", "report.pdf"),
            ("../../.bashrc", "bashrc"),
            ("/etc/passwd", "passwd"),
            ("C:\\Windows\\x.dll", "x.dll"),
            ("a\u{202e}fdp.exe", "afdp.exe"),
            ("a\0b\nc.txt", "abc.txt"),
            ("...", "download"),
            ("", "download"),
            ("   ", "download"),
            ("x. . ", "x"),
            ("NUL.txt", "_NUL.txt"),
            ("com1", "_com1"),
            ("COM¹.log", "_COM¹.log"),
            ("console.txt", "console.txt"),
            ("a:b?.txt", "a_b_.txt"),
            ("日本🦋.md", "日本🦋.md"),
            ("archive.tar.gz", "archive.tar.gz"),
        ] {
            assert_eq!(safe_name(given), want, "{given:?}");
        }
        let long = safe_name(&format!("{}.txt", "ä".repeat(400)));
        assert!(long.len() <= MAX_NAME && long.ends_with("ä.txt"), "{long}");
    }

    #[test]
    fn a_file_is_never_replaced_nor_executable() {
        let folder = std::env::temp_dir().join(format!("chrysalis-save-{}", policy::random_hex(8)));
        let first = save(&folder, "a.sh", b"one").unwrap();
        let second = save(&folder, "a.sh", b"two").unwrap();
        assert_eq!(second.file_name().unwrap(), "a (2).sh");
        assert_eq!(fs::read(&first).unwrap(), b"one");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&second).unwrap().permissions().mode() & 0o111, 0);
            std::os::unix::fs::symlink(folder.join("elsewhere"), folder.join("b.txt")).unwrap();
            save(&folder, "b.txt", b"three").unwrap();
            assert!(!folder.join("elsewhere").exists());
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
