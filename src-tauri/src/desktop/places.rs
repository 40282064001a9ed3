//! Where windows were, and which apps were opened last. Kept in `windows.json` in the home.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use tauri::{Monitor, PhysicalPosition, PhysicalSize};

/// Apps in the tray's list.
const RECENT: usize = 5;
/// Windows remembered; the oldest beyond this have no place of their own any more.
const REMEMBERED: usize = 200;
/// Longest file that is read back.
const MAX_FILE: u64 = 256 * 1024;

/// A window's place, in physical pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub x: i32,
    pub y: i32,
    pub width: u32,
    pub height: u32,
    #[serde(default)]
    pub maximized: bool,
}

/// An app opened lately.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recent {
    pub id: String,
    pub name: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Kept {
    windows: BTreeMap<String, Place>,
    recent: Vec<Recent>,
}

/// The remembered places.
pub struct Places {
    file: PathBuf,
    kept: Mutex<(Kept, bool)>,
}

impl Places {
    /// Reads `windows.json`. A file that cannot be read costs the places and nothing else.
    pub fn open(home: &Path) -> Places {
        let file = home.join("windows.json");
        let read = || -> Option<Kept> {
            if fs::metadata(&file).ok()?.len() > MAX_FILE {
                return None;
            }
            serde_json::from_slice(&fs::read(&file).ok()?).ok()
        };
        let kept = read().unwrap_or_default();
        Places {
            file,
            kept: Mutex::new((kept, false)),
        }
    }

    /// The place of a window, if it would still be seen there.
    pub fn get(&self, window: &str, screens: &[Screen]) -> Option<Place> {
        let place = *self.kept.lock().ok()?.0.windows.get(window)?;
        fit(place, screens)
    }

    pub fn set(&self, window: &str, place: Place) {
        if let Ok(mut kept) = self.kept.lock()
            && (kept.0.windows.len() < REMEMBERED || kept.0.windows.contains_key(window))
            && kept.0.windows.insert(window.to_owned(), place) != Some(place)
        {
            kept.1 = true;
        }
    }

    /// Puts an app at the head of the recent ones.
    pub fn opened(&self, id: &str, name: &str) {
        if let Ok(mut kept) = self.kept.lock() {
            let recent = &mut kept.0.recent;
            recent.retain(|app| app.id != id);
            recent.insert(
                0,
                Recent {
                    id: id.into(),
                    name: name.into(),
                },
            );
            recent.truncate(RECENT);
            kept.1 = true;
        }
    }

    /// Takes a removed app out of the recent ones.
    pub fn removed(&self, id: &str) {
        if let Ok(mut kept) = self.kept.lock() {
            let before = kept.0.recent.len();
            kept.0.recent.retain(|app| app.id != id);
            kept.1 |= kept.0.recent.len() != before;
        }
    }

    pub fn recent(&self) -> Vec<Recent> {
        self.kept.lock().map(|kept| kept.0.recent.clone()).unwrap_or_default()
    }

    /// Writes what has changed: to another name first, synced, then in place of the old file.
    pub fn save(&self) {
        let Ok(mut kept) = self.kept.lock() else { return };
        if !std::mem::take(&mut kept.1) {
            return;
        }
        if let Err(error) = write(&self.file, &kept.0) {
            tracing::warn!(%error, "the windows' places were not saved");
        }
    }
}

fn write(file: &Path, kept: &Kept) -> io::Result<()> {
    let new = file.with_extension("json.new");
    let mut out = File::create(&new)?;
    out.write_all(&serde_json::to_vec_pretty(kept)?)?;
    out.sync_all()?;
    fs::rename(&new, file)
}

/// The part of the desktop that one monitor shows, in physical pixels.
#[derive(Debug, Clone, Copy)]
pub struct Screen {
    pub position: PhysicalPosition<i32>,
    pub size: PhysicalSize<u32>,
}

impl From<&Monitor> for Screen {
    fn from(monitor: &Monitor) -> Screen {
        Screen {
            position: *monitor.position(),
            size: *monitor.size(),
        }
    }
}

/// Makes a remembered place usable: at most as large as a screen, and with enough of its upper edge on one to be
/// grasped. `None` when the screen it was on is gone.
fn fit(mut place: Place, screens: &[Screen]) -> Option<Place> {
    let widest = screens.iter().map(|screen| screen.size.width).max()?;
    let tallest = screens.iter().map(|screen| screen.size.height).max()?;
    place.width = place.width.clamp(320.min(widest), widest);
    place.height = place.height.clamp(240.min(tallest), tallest);
    let seen = screens.iter().any(|screen| {
        let (left, top) = (i64::from(screen.position.x), i64::from(screen.position.y));
        let right = left + i64::from(screen.size.width);
        let bottom = top + i64::from(screen.size.height);
        let (x, y) = (i64::from(place.x), i64::from(place.y));
        let across = (x + i64::from(place.width)).min(right) - x.max(left);
        across >= 64 && y >= top - 8 && y + 48 <= bottom
    });
    seen.then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screens() -> Vec<Screen> {
        vec![Screen {
            position: PhysicalPosition::new(0, 0),
            size: PhysicalSize::new(1280, 900),
        }]
    }

    fn place(x: i32, y: i32, width: u32, height: u32) -> Place {
        Place {
            x,
            y,
            width,
            height,
            maximized: false,
        }
    }

    #[test]
    fn a_place_on_a_vanished_screen_is_forgotten() {
        for (given, want) in [
            (place(10, 20, 800, 600), Some(place(10, 20, 800, 600))),
            (place(-700, 20, 800, 600), Some(place(-700, 20, 800, 600))),
            (place(-780, 20, 800, 600), None),
            (place(2000, 20, 800, 600), None),
            (place(10, 880, 800, 600), None),
            (place(10, -500, 800, 600), None),
            (place(i32::MAX, i32::MIN, u32::MAX, 0), None),
            (place(0, 0, u32::MAX, 0), Some(place(0, 0, 1280, 240))),
        ] {
            assert_eq!(fit(given, &screens()), want, "{given:?}");
        }
        assert_eq!(fit(place(10, 20, 800, 600), &[]), None);
    }

    #[test]
    fn places_survive_a_restart_and_a_broken_file() {
        let home = std::env::temp_dir().join(format!("chrysalis-places-{}", policy::random_hex(8)));
        fs::create_dir_all(&home).unwrap();
        let places = Places::open(&home);
        places.set("app-chat", place(1, 2, 700, 500));
        for n in 0..7 {
            places.opened(&format!("app{n}"), "An app");
        }
        places.opened("app5", "Renamed");
        places.save();
        let places = Places::open(&home);
        assert_eq!(places.get("app-chat", &screens()), Some(place(1, 2, 700, 500)));
        let recent: Vec<_> = places.recent().into_iter().map(|app| app.id).collect();
        assert_eq!(recent, ["app5", "app6", "app4", "app3", "app2"]);
        for broken in ["", "{", "[]", "{\"windows\":7}", "\u{feff}"] {
            fs::write(home.join("windows.json"), broken).unwrap();
            let places = Places::open(&home);
            assert_eq!(places.get("app-chat", &screens()), None, "{broken}");
            places.set("app-chat", place(5, 5, 700, 500));
            places.save();
            assert!(Places::open(&home).get("app-chat", &screens()).is_some(), "{broken}");
        }
        fs::remove_dir_all(&home).unwrap();
    }
}
