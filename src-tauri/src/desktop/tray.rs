//! The tray icon: open the launcher, one of the recent apps, or quit. It is only there while something shows it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tauri::menu::{Menu, MenuItem, PredefinedMenuItem};
use tauri::tray::TrayIconBuilder;
use tauri::{AppHandle, Wry};

use super::{Shell, launcher, platform, strand_nobody};

const ID: &str = "tray";
const OPEN: &str = "open";
const QUIT: &str = "quit";
const APP: &str = "app:";

/// Shows the icon while the desktop has a place for it.
pub fn watch(app: AppHandle, shell: Arc<Shell>) {
    platform::watch_tray_host(move |there| {
        if there && app.tray_by_id(ID).is_none() {
            // The library for tray icons is loaded when the first one is made, and panics when it is not installed.
            match catch_unwind(AssertUnwindSafe(|| build(&app, &shell))) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(%error, "no tray icon");
                    return;
                }
                Err(_) => {
                    tracing::warn!("no tray icon: the ayatana-appindicator library is missing");
                    return;
                }
            }
        }
        shell.tray.store(there, Ordering::Relaxed);
        if !there && shell.launcher_hidden.load(Ordering::Relaxed) && shell.app_windows_open() {
            // The way back in is gone.
            launcher::show(&app);
        } else {
            strand_nobody(&app, &shell);
        }
    });
}

/// The recent apps changed.
pub fn changed(app: &AppHandle, shell: &Shell) {
    if let Some(tray) = app.tray_by_id(ID)
        && let Ok(menu) = menu(app, shell)
    {
        let _ = tray.set_menu(Some(menu));
    }
}

fn menu(app: &AppHandle, shell: &Shell) -> tauri::Result<Menu<Wry>> {
    let menu = Menu::new(app)?;
    menu.append(&MenuItem::with_id(app, OPEN, "Open Chrysalis", true, None::<&str>)?)?;
    let recent = shell.places.recent();
    if !recent.is_empty() {
        menu.append(&PredefinedMenuItem::separator(app)?)?;
    }
    for recent in recent {
        let id = format!("{APP}{}", recent.id);
        // An ampersand would mark a shortcut.
        let name: String = recent.name.replace('&', "&&").chars().take(60).collect();
        menu.append(&MenuItem::with_id(app, id, name, true, None::<&str>)?)?;
    }
    menu.append(&PredefinedMenuItem::separator(app)?)?;
    menu.append(&MenuItem::with_id(app, QUIT, "Quit", true, None::<&str>)?)?;
    Ok(menu)
}

fn build(app: &AppHandle, shell: &Arc<Shell>) -> tauri::Result<()> {
    let chosen = shell.clone();
    let mut builder = TrayIconBuilder::with_id(ID)
        .menu(&menu(app, shell)?)
        .tooltip("Chrysalis")
        .on_menu_event(move |app, event| match event.id().as_ref() {
            OPEN => launcher::show(app),
            QUIT => app.exit(0),
            other => {
                let Some(id) = other.strip_prefix(APP).map(str::to_owned) else {
                    return;
                };
                let (app, shell) = (app.clone(), chosen.clone());
                chosen.runtime.spawn(async move {
                    if let Err(why) = launcher::open_by_id(&app, &shell, &id).await {
                        tracing::warn!(why, "the app could not be opened from the tray");
                        launcher::show(&app);
                    }
                });
            }
        });
    if let Some(icon) = app.default_window_icon() {
        builder = builder.icon(icon.clone());
    }
    builder.build(app)?;
    Ok(())
}
