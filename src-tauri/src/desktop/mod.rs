//! The desktop: the launcher's window, one window per open app, the tray.
//!
//! Two kinds of window, and nothing in common between them. The launcher is a Tauri webview and speaks to the engine
//! through Tauri commands. App windows are bare webviews that Tauri knows nothing of, each with its own scheme handler
//! and its own message handler, so that no command, no invoke key and no other app is within a page's reach.

mod app_window;
mod bridge;
#[cfg(test)]
mod bridge_tests;
mod delivery;
pub mod door;
mod download;
mod flood;
#[cfg(feature = "test-hook")]
mod hook;
mod launcher;
mod message;
mod outbox;
mod places;
mod removed;
mod session;
mod storage;
#[cfg(test)]
mod testing;
mod tray;

#[cfg(target_os = "linux")]
#[path = "linux/mod.rs"]
mod platform;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere.rs"]
mod platform;

use std::collections::HashMap;
use std::future::Future;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use policy::AppId;
use tauri::{AppHandle, Manager, RunEvent, WindowEvent};
use tokio::runtime::Handle;
use tokio::sync::watch;

use bridge::Bridge;
use delivery::Flow;
use door::Opened;
use places::Places;

/// Time for running work to end when the program is closed.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(5);

/// What the desktop's parts share.
pub struct Shell {
    home: PathBuf,
    runtime: Handle,
    engine: watch::Receiver<Option<Opened>>,
    places: Places,
    /// Answers under way to the launcher, by the launcher's own numbers.
    calls: Mutex<HashMap<u64, Flow>>,
    bridges: Mutex<HashMap<AppId, Arc<Bridge>>>,
    /// Something shows the tray's icon right now.
    tray: AtomicBool,
    launcher_hidden: AtomicBool,
}

impl Shell {
    /// The engine, waiting until it is open.
    async fn engine(&self) -> Opened {
        match self.engine.clone().wait_for(Option::is_some).await {
            Ok(opened) => opened.clone().unwrap_or_else(|| Err("the engine did not start".into())),
            Err(_) => Err("the engine stopped while it was starting".into()),
        }
    }

    fn app_windows_open(&self) -> bool {
        self.bridges.lock().is_ok_and(|bridges| !bridges.is_empty())
    }
}

/// Call first thing in `main`, before any thread is started: every web process is to run in its own sandbox.
pub fn before_threads() {
    // SAFETY: the caller has started no thread, so nothing reads the environment meanwhile.
    #[cfg(target_os = "linux")]
    unsafe {
        std::env::set_var("WEBKIT_FORCE_SANDBOX", "1");
    }
}

/// Runs the desktop until the person quits. `open` opens the engine; the launcher's window is up before it is done,
/// and shows the text when it fails. Must be called on the main thread, outside any runtime.
pub fn run(runtime: Handle, home: PathBuf, open: impl Future<Output = Opened> + Send + 'static) -> ExitCode {
    if let Err(why) = platform::ready() {
        eprintln!("chrysalis: {why}");
        return ExitCode::FAILURE;
    }
    // The launcher's webview would otherwise make it first, open to everyone's eyes. What is wrong with a home that
    // cannot be made is the engine's to say.
    let mut folder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
    let _ = folder.recursive(true).create(&home);
    tauri::async_runtime::set(runtime.clone());
    let (opened, engine) = watch::channel(None);
    let shell = Arc::new(Shell {
        places: Places::open(&home),
        home,
        runtime: runtime.clone(),
        engine,
        calls: Mutex::default(),
        bridges: Mutex::default(),
        tray: AtomicBool::new(false),
        launcher_hidden: AtomicBool::new(false),
    });
    let setup = {
        let (shell, runtime) = (shell.clone(), runtime.clone());
        move |app: &mut tauri::App| {
            // Only here, after a second start was sent away: one home has one engine.
            runtime.spawn(async move {
                let _ = opened.send(Some(open.await));
            });
            launcher::open(app.handle(), &shell)?;
            tray::watch(app.handle().clone(), shell.clone());
            removed::watch(app.handle().clone(), shell.clone());
            quit_on_signals(app.handle().clone(), &runtime);
            #[cfg(feature = "test-hook")]
            hook::listen(&shell);
            Ok(())
        }
    };
    let built = tauri::Builder::default()
        .plugin(single_instance(&shell))
        .manage(shell.clone())
        .invoke_handler(tauri::generate_handler![
            launcher::call,
            launcher::cancel,
            launcher::open_app,
            launcher::quit
        ])
        .setup(setup)
        .build(tauri::generate_context!());
    let app = match built {
        Ok(app) => app,
        Err(error) => {
            eprintln!("chrysalis: the window could not be opened: {error}");
            return ExitCode::FAILURE;
        }
    };
    let code = app.run_return(move |app, event| on_event(app, &shell, event));
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// A second start on the same home brings the first one's launcher forward. Homes are told apart, so that a portable
/// copy and an installed one do not get in each other's way.
fn single_instance(shell: &Shell) -> tauri::plugin::TauriPlugin<tauri::Wry> {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    let home = shell.home.canonicalize();
    home.as_ref().unwrap_or(&shell.home).hash(&mut hasher);
    tauri_plugin_single_instance::Builder::new()
        .dbus_id(format!("app.chrysalis.desktop.h{:016x}", hasher.finish()))
        .callback(|app, _arguments, _folder| launcher::show(app))
        .build()
}

fn quit_on_signals(app: AppHandle, runtime: &Handle) {
    #[cfg(unix)]
    runtime.spawn(async move {
        use tokio::signal::unix::{SignalKind, signal};
        let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
        else {
            return;
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        app.exit(0);
    });
    #[cfg(not(unix))]
    runtime.spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            app.exit(0);
        }
    });
}

fn on_event(app: &AppHandle, shell: &Arc<Shell>, event: RunEvent) {
    match event {
        RunEvent::WindowEvent { label, event, .. } => match event {
            WindowEvent::CloseRequested { api, .. } if label == launcher::LABEL => {
                remember(app, shell, &label);
                let tray = shell.tray.load(Ordering::Relaxed);
                if tray || shell.app_windows_open() {
                    api.prevent_close();
                    shell.launcher_hidden.store(true, Ordering::Relaxed);
                    if let Some(window) = app.get_window(launcher::LABEL) {
                        let _ = window.hide();
                    }
                } else {
                    app.exit(0);
                }
            }
            WindowEvent::CloseRequested { .. } => {
                remember(app, shell, &label);
                app_window::closing(&label);
                let shell = shell.clone();
                shell.runtime.clone().spawn_blocking(move || shell.places.save());
            }
            WindowEvent::Destroyed => {
                app_window::closed(shell, &label);
                strand_nobody(app, shell);
            }
            WindowEvent::Moved(_) | WindowEvent::Resized(_) => remember(app, shell, &label),
            _ => {}
        },
        RunEvent::Exit => end(shell),
        _ => {}
    }
}

/// With no window and no tray icon left there is no way back in: then the program ends.
fn strand_nobody(app: &AppHandle, shell: &Shell) {
    let hidden = shell.launcher_hidden.load(Ordering::Relaxed);
    if hidden && !shell.tray.load(Ordering::Relaxed) && !shell.app_windows_open() {
        app.exit(0);
    }
}

fn remember(app: &AppHandle, shell: &Shell, label: &str) {
    let Some(window) = app.get_window(label) else { return };
    if window.is_minimized().unwrap_or(false) || !window.is_visible().unwrap_or(false) {
        return;
    }
    let maximized = window.is_maximized().unwrap_or(false);
    let (Ok(position), Ok(size)) = (window.outer_position(), window.inner_size()) else {
        return;
    };
    let known = shell.places.get(label, &app_window::screens(app));
    // The size to come back to from full size is the one before it.
    let place = match known {
        Some(known) if maximized => places::Place { maximized, ..known },
        _ => places::Place {
            x: position.x,
            y: position.y,
            width: size.width,
            height: size.height,
            maximized,
        },
    };
    shell.places.set(label, place);
}

fn end(shell: &Arc<Shell>) {
    shell.places.save();
    let bridges: Vec<_> = match shell.bridges.lock() {
        Ok(mut bridges) => bridges.drain().map(|(_, bridge)| bridge).collect(),
        Err(_) => Vec::new(),
    };
    let engine = shell.engine.borrow().clone();
    let orderly = async {
        for bridge in bridges {
            bridge.flush().await;
        }
        if let Some(Ok(engine)) = engine {
            engine.shutdown().await;
        }
    };
    shell.runtime.block_on(async {
        if tokio::time::timeout(SHUTDOWN_LIMIT, orderly).await.is_err() {
            tracing::warn!("some work did not end in time");
        }
    });
}
