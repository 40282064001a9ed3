//! Where things are.

use std::path::PathBuf;

/// A file of this name beside the program keeps everything in a folder `chrysalis-home` beside it.
const PORTABLE: &str = "portable.toml";

/// The home: `--home` (or `CHRYSALIS_HOME`), else beside a portable program, else the platform's data folder.
pub fn home(given: Option<PathBuf>) -> Result<PathBuf, String> {
    if let Some(given) = given {
        return std::path::absolute(&given).map_err(|e| format!("--home {} cannot be used: {e}", given.display()));
    }
    if let Some(folder) = program_folder()
        && folder.join(PORTABLE).is_file()
    {
        return Ok(folder.join("chrysalis-home"));
    }
    dirs::data_dir()
        .map(|data| data.join("chrysalis"))
        .ok_or_else(|| "this system names no data folder: say where with --home DIR".into())
}

fn program_folder() -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.parent()?.to_owned())
}

/// The worker program, which stands beside this one.
pub fn worker() -> PathBuf {
    let name = format!("chrysalis-worker{}", std::env::consts::EXE_SUFFIX);
    program_folder().map_or_else(|| PathBuf::from(&name), |folder| folder.join(&name))
}
