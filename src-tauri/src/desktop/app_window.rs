//! One window per open app. What a system must bring for it is the small interface of `platform`: `View::open` and
//! the few things a view can do.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use policy::AppId;
use tauri::window::WindowBuilder;
use tauri::{AppHandle, Manager, PhysicalPosition, PhysicalSize, Window};
use tokio::sync::oneshot;

use super::bridge::{Bridge, Page, Question};
use super::door::Door;
use super::places::{Place, Screen};
use super::platform::{self, View};
use super::{Shell, launcher};

const PREFIX: &str = "app-";

thread_local! {
    /// The views, on the one thread that may touch them.
    static VIEWS: RefCell<HashMap<AppId, Rc<View>>> = RefCell::default();
}

/// The monitors' places.
pub fn screens(app: &AppHandle) -> Vec<Screen> {
    let monitors = app
        .get_window(launcher::LABEL)
        .map(|window| window.available_monitors());
    let monitors = match monitors {
        Some(monitors) => monitors,
        None => app.available_monitors(),
    };
    monitors.unwrap_or_default().iter().map(Screen::from).collect()
}

/// Puts a window where it was.
pub fn put(window: &Window, place: Place) {
    let _ = window.set_size(PhysicalSize::new(place.width, place.height));
    let _ = window.set_position(PhysicalPosition::new(place.x, place.y));
}

/// Opens an app's window, or brings it forward. On the main thread only.
pub fn open(app: &AppHandle, shell: &Arc<Shell>, door: Arc<dyn Door>, id: AppId, name: &str) -> Result<(), String> {
    let label = format!("{PREFIX}{id}");
    shell.places.opened(id.as_str(), name);
    super::tray::changed(app, shell);
    if view(&id).is_some()
        && let Some(window) = app.get_window(&label)
    {
        let _ = window.unminimize();
        let _ = window.show();
        let _ = window.set_focus();
        return Ok(());
    }
    let place = shell.places.get(&label, &screens(app));
    let mut builder = WindowBuilder::new(app, &label)
        .title(name)
        .inner_size(960.0, 720.0)
        .min_inner_size(320.0, 240.0);
    if let Some(place) = place {
        builder = builder.maximized(place.maximized);
    }
    let window = builder
        .build()
        .map_err(|error| format!("the window could not be opened: {error}"))?;
    if let Some(place) = place
        && !place.maximized
    {
        put(&window, place);
    }
    let bridge = Bridge::start(
        shell.runtime.clone(),
        door,
        id.clone(),
        Arc::new(AppPage { app: id.clone() }),
    );
    let view = match View::open(&window, &id, name, bridge.clone()) {
        Ok(view) => view,
        Err(why) => {
            let _ = window.destroy();
            return Err(why);
        }
    };
    if let Ok(mut bridges) = shell.bridges.lock() {
        bridges.insert(id.clone(), bridge);
    }
    VIEWS.with_borrow_mut(|views| views.insert(id, view));
    Ok(())
}

/// Closes an app's window, if it is open, as the person would.
pub fn close(app: &AppHandle, id: &AppId) {
    if let Some(window) = app.get_window(&format!("{PREFIX}{id}")) {
        let _ = window.close();
    }
}

/// The window is about to close: its webview goes first, while the window is still whole.
pub fn closing(label: &str) {
    let view = label
        .strip_prefix(PREFIX)
        .and_then(|id| AppId::parse(id).ok())
        .and_then(|id| VIEWS.with_borrow_mut(|views| views.remove(&id)));
    // Dropped outside the borrow, since ending a webview calls back.
    drop(view);
}

/// The window is gone.
pub fn closed(shell: &Shell, label: &str) {
    closing(label);
    if let Some(id) = label.strip_prefix(PREFIX).and_then(|id| AppId::parse(id).ok())
        && let Ok(mut bridges) = shell.bridges.lock()
    {
        bridges.remove(&id);
    }
}

/// An open app's view. On the main thread only; elsewhere there is none.
pub fn view(id: &AppId) -> Option<Rc<View>> {
    VIEWS.with_borrow(|views| views.get(id).cloned())
}

/// The page of an app as its bridge sees it: every call is handed to the main thread.
struct AppPage {
    app: AppId,
}

impl AppPage {
    fn with(&self, what: impl FnOnce(&View) + Send + 'static) {
        let app = self.app.clone();
        platform::on_main_thread(move || {
            if let Some(view) = view(&app) {
                what(&view);
            }
        });
    }
}

impl Page for AppPage {
    fn evaluate(&self, script: String, done: Box<dyn FnOnce() + Send>) {
        self.with(move |view| view.evaluate(&script, done));
    }

    fn ask(&self, question: Question) -> oneshot::Receiver<bool> {
        let (answer, receiver) = oneshot::channel();
        self.with(move |view| view.ask(&question, answer));
        receiver
    }

    fn open_link(&self, url: String) {
        self.with(move |view| view.open_link(&url));
    }

    fn stop(&self, why: &'static str) {
        self.with(move |view| view.stop(why));
    }
}
