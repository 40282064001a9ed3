//! Systems whose windows are not built yet. Everything compiles there and says so at the start; nothing runs half.

use std::rc::Rc;
use std::sync::Arc;

use policy::AppId;
use tokio::sync::oneshot;

use super::bridge::{Bridge, Question};

const NOT_BUILT: &str =
    "app windows are not built yet for this system: use `chrysalis serve` and open the address it prints in a browser";

pub fn ready() -> Result<(), String> {
    Err(NOT_BUILT.into())
}

pub fn on_main_thread(what: impl FnOnce() + Send + 'static) {
    drop(what);
}

pub fn keep_alive(_launcher: &tauri::WebviewWindow) -> tauri::Result<()> {
    Ok(())
}

pub fn watch_tray_host(changed: impl Fn(bool) + Send + Sync + 'static) {
    changed(false);
}

/// Cannot be made: [`View::open`] always refuses.
pub enum View {}

impl View {
    pub fn open(_: &tauri::Window, _: &AppId, _: &str, _: Arc<Bridge>) -> Result<Rc<View>, String> {
        Err(NOT_BUILT.into())
    }

    pub fn evaluate(&self, _: &str, _: Box<dyn FnOnce() + Send>) {
        match *self {}
    }

    pub fn ask(&self, _: &Question, _: oneshot::Sender<bool>) {
        match *self {}
    }

    pub fn open_link(&self, _: &str) {
        match *self {}
    }

    pub fn stop(&self, _: &str) {
        match *self {}
    }
}
