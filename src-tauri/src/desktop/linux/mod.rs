//! App windows with WebKitGTK: a bare webview in a window that has none of Tauri's.

mod bars;
mod features;
mod relay;
mod tray_host;

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gtk::glib;
use gtk::prelude::*;
use http::Request;
use policy::AppId;
use tokio::sync::oneshot;
use webkit2gtk::{ContextMenuAction, ContextMenuExt, ContextMenuItemExt, SettingsExt, WebContextExt, WebViewExt};
use wry::{NewWindowResponse, PermissionResponse, WebViewBuilder, WebViewBuilderExtUnix, WebViewExtUnix};

use super::bridge::{Bridge, Question, SCHEME};
use bars::Bars;
pub use tray_host::watch_tray_host;

/// How long a page may fail to react before the person is offered to load it again.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the offer stays away after the person chose to wait.
const WAIT: Duration = Duration::from_secs(10);
/// How often an app's page is asked whether it is alive.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// The same for the launcher, which is loaded again without asking.
const LAUNCHER_PATIENCE: Duration = Duration::from_secs(10);

/// Whether windows can be opened here at all.
pub fn ready() -> Result<(), String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let sandbox = std::env::split_paths(&path).any(|folder| folder.join("bwrap").is_file());
    if !sandbox {
        return Err(
            "bubblewrap is not installed, and app pages are not run without it: install the package \
             \"bubblewrap\" and start again"
                .into(),
        );
    }
    let display = ["WAYLAND_DISPLAY", "DISPLAY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some());
    if !display {
        return Err(
            "there is no screen here (neither DISPLAY nor WAYLAND_DISPLAY is set): use `chrysalis serve` \
             and open the address it prints in a browser"
                .into(),
        );
    }
    Ok(())
}

/// Runs something on the thread that owns all windows. Not when it is idle: a flooding page would see to it that it
/// never is, and this is how such a page is ended.
pub fn on_main_thread(what: impl FnOnce() + Send + 'static) {
    glib::MainContext::default().invoke_with_priority(glib::Priority::HIGH, what);
}

/// Loads the launcher again when its web process crashes or hangs.
pub fn keep_alive(launcher: &tauri::WebviewWindow) -> tauri::Result<()> {
    launcher.with_webview(|webview| {
        let webview = webview.inner();
        if let Some(settings) = WebViewExt::settings(&webview) {
            // A developer's build shows what the launcher's script complains about.
            settings.set_enable_write_console_messages_to_stdout(cfg!(debug_assertions));
        }
        name_a_language(&webview);
        webview.connect_web_process_terminated(|webview, reason| {
            tracing::warn!(?reason, "the launcher's web process ended; loading it again");
            webview.reload();
        });
        when_hung(&webview, LAUNCHER_PATIENCE, |webview, hung| {
            if hung {
                webview.terminate_web_process();
            }
        });
    })
}

/// In a locale such as `C.UTF-8` WebKit tells pages that their language is `C`, which no page can make anything of.
fn name_a_language(webview: &webkit2gtk::WebView) {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    if locale.is_some_and(|locale| locale.starts_with("C."))
        && let Some(context) = webview.context()
    {
        context.set_preferred_languages(&["en-US"]);
    }
}

/// Calls `changed` with `true` when a page that someone clicks, scrolls or types in has not reacted for `patience`, and
/// with `false` when it does again. WebKit's own watch is of no use here: it never starts for a click, since the motion
/// of the pointer before it is what a hung page leaves unanswered, and the click waits behind that.
fn when_hung(
    webview: &webkit2gtk::WebView,
    patience: Duration,
    changed: impl Fn(&webkit2gtk::WebView, bool) + 'static,
) {
    let changed = Rc::new(changed);
    let asking = Rc::new(Cell::new(false));
    let ask = Rc::new(move |webview: &webkit2gtk::WebView| {
        if asking.replace(true) {
            return;
        }
        let (answered, late) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
        let (asking, changed_again) = (asking.clone(), changed.clone());
        let (answered_now, was_late, page) = (answered.clone(), late.clone(), webview.downgrade());
        // Any script will do: what matters is that the page's process comes to run it.
        webview.evaluate_javascript("0", None, None, gtk::gio::Cancellable::NONE, move |_| {
            asking.set(false);
            answered_now.set(true);
            if let Some(webview) = page.upgrade().filter(|_| was_late.get()) {
                changed_again(&webview, false);
            }
        });
        let (webview, changed) = (webview.downgrade(), changed.clone());
        glib::timeout_add_local_once(patience, move || {
            if let Some(webview) = webview.upgrade().filter(|_| !answered.get()) {
                late.set(true);
                changed(&webview, true);
            }
        });
    });
    let on_click = ask.clone();
    webview.connect_button_press_event(move |webview, _| {
        on_click(webview);
        glib::Propagation::Proceed
    });
    let on_scroll = ask.clone();
    webview.connect_scroll_event(move |webview, _| {
        on_scroll(webview);
        glib::Propagation::Proceed
    });
    webview.connect_key_press_event(move |webview, _| {
        ask(webview);
        glib::Propagation::Proceed
    });
}

/// Why a page cannot be used right now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trouble {
    None,
    Hung,
    Ended,
}

/// One app's page in its window.
pub struct View {
    web: wry::WebView,
    bars: Bars,
    name: String,
    home: String,
    bridge: Arc<Bridge>,
    trouble: Cell<Trouble>,
    /// The heartbeat that has not been answered yet.
    asked: Cell<Option<Instant>>,
    /// The person chose to wait for a page that does not answer, until then.
    waits: Cell<Option<Instant>>,
    own: RefCell<Weak<View>>,
}

impl View {
    /// Opens the app's start page in `window`. On the main thread only.
    pub fn open(window: &tauri::Window, app: &AppId, name: &str, bridge: Arc<Bridge>) -> Result<Rc<View>, String> {
        let area = window.default_vbox().map_err(|error| error.to_string())?;
        let home = format!("{SCHEME}://{app}/");
        let prefix = home.clone();
        let (files, messages) = (bridge.clone(), bridge.clone());
        // Incognito gives this webview a context of its own: no other webview knows its scheme handler, and nothing
        // is kept on disk.
        let web = WebViewBuilder::new()
            .with_id(window.label())
            .with_incognito(true)
            .with_devtools(false)
            .with_asynchronous_custom_protocol(SCHEME.into(), move |_, request, responder| {
                let (parts, _) = request.into_parts();
                let respond = Box::new(move |response: http::Response<Vec<u8>>| responder.respond(response));
                files.file(Request::from_parts(parts, ()), respond);
            })
            .with_ipc_handler(move |message| messages.message(message.into_body()))
            .with_navigation_handler(move |url| url.starts_with(&prefix))
            .with_new_window_req_handler(|_, _| NewWindowResponse::Deny)
            .with_download_started_handler(|_, _| false)
            .with_permission_handler(|_| PermissionResponse::Deny)
            .build_gtk(&area)
            .map_err(|error| format!("the app's page could not be opened: {error}"))?;
        features::switch_off(&web.webview());
        relay::put_between(&web.webview())?;
        name_a_language(&web.webview());
        let view = Rc::new(View {
            bars: Bars::above(&area),
            web,
            name: name.to_owned(),
            home,
            bridge,
            trouble: Cell::new(Trouble::None),
            asked: Cell::new(None),
            waits: Cell::new(None),
            own: RefCell::default(),
        });
        *view.own.borrow_mut() = Rc::downgrade(&view);
        view.watch(window);
        view.load();
        Ok(view)
    }

    fn watch(&self, window: &tauri::Window) {
        let web = self.web.webview();
        let own = self.own.borrow().clone();
        web.connect_web_process_terminated(move |_, reason| {
            if let Some(view) = own.upgrade()
                && view.trouble.get() != Trouble::Ended
            {
                tracing::warn!(app = view.home, ?reason, "an app's web process ended");
                view.ended(&format!("{} stopped working.", view.name));
            }
        });
        // A page that closes itself takes its webview along; the window without one goes too.
        // Not by its signal for that: wry answers it first, by destroying the webview with all its handlers.
        let (closing, own) = (window.clone(), self.own.borrow().clone());
        web.connect_destroy(move |_| {
            // When it is the window that closes, the view is gone already.
            if own.upgrade().is_some() {
                let _ = closing.close();
            }
        });
        let own = self.own.borrow().clone();
        glib::timeout_add_local(HEARTBEAT, move || match own.upgrade() {
            Some(view) => {
                view.beat();
                glib::ControlFlow::Continue
            }
            None => glib::ControlFlow::Break,
        });
        web.connect_context_menu(|_, menu, _, _| {
            for item in menu.items() {
                if !useful(item.stock_action()) {
                    menu.remove(&item);
                }
            }
            // An empty menu is not shown.
            menu.n_items() == 0
        });
        // The page's policy forbids these already.
        web.connect_print(|_, _| true);
        web.connect_script_dialog(|_, _| true);
    }

    fn beat(&self) {
        match self.asked.get() {
            _ if self.trouble.get() == Trouble::Ended => self.asked.set(None),
            Some(asked) if asked.elapsed() >= PATIENCE => self.hung(true),
            Some(_) => {}
            None => {
                self.asked.set(Some(Instant::now()));
                let own = self.own.borrow().clone();
                let answered = move || {
                    if let Some(view) = own.upgrade() {
                        view.asked.set(None);
                        view.hung(false);
                    }
                };
                let web = self.web.webview();
                web.evaluate_javascript("0", None, None, gtk::gio::Cancellable::NONE, move |_| answered());
            }
        }
    }

    fn load(&self) {
        self.trouble.set(Trouble::None);
        self.asked.set(None);
        self.waits.set(None);
        self.bars.clear();
        self.web.webview().show();
        if let Err(error) = self.web.load_url(&self.home) {
            tracing::warn!(app = self.home, %error, "the page could not be loaded");
        }
        self.web.webview().grab_focus();
    }

    fn reload(&self) {
        if self.trouble.get() == Trouble::Hung {
            // A page in an endless loop does not let go by itself. The signal that follows is of our own making.
            self.trouble.set(Trouble::Ended);
            self.web.webview().terminate_web_process();
        }
        self.bridge.forgive();
        self.load();
    }

    fn hung(&self, hung: bool) {
        match (self.trouble.get(), hung) {
            (Trouble::None, true) if self.waits.get().is_some_and(|until| Instant::now() < until) => {}
            (Trouble::None, true) => {
                self.trouble.set(Trouble::Hung);
                let own = self.own.borrow().clone();
                let text = format!("{} is not answering.", self.name);
                self.bars
                    .trouble(&text, &[("Wait", false), ("Reload", true)], move |reload| {
                        if let Some(view) = own.upgrade() {
                            if reload {
                                view.reload();
                            } else {
                                view.waits.set(Some(Instant::now() + WAIT));
                                view.trouble.set(Trouble::None);
                            }
                        }
                    });
            }
            (Trouble::Hung, false) => {
                self.trouble.set(Trouble::None);
                self.bars.clear();
            }
            _ => {}
        }
    }

    /// The page's process is gone: its window shows a bar and nothing else.
    fn ended(&self, text: &str) {
        self.trouble.set(Trouble::Ended);
        self.web.webview().hide();
        let own = self.own.borrow().clone();
        self.bars.trouble(text, &[("Reload", true)], move |_| {
            if let Some(view) = own.upgrade() {
                view.reload();
            }
        });
    }

    /// Runs a script in the page; `done` when it has run, or cannot any more.
    pub fn evaluate(&self, script: &str, done: Box<dyn FnOnce() + Send>) {
        let web = self.web.webview();
        web.evaluate_javascript(script, None, None, gtk::gio::Cancellable::NONE, move |_| done());
    }

    /// Asks the person above the page. While another question stands or the page is in trouble, the answer is no.
    pub fn ask(&self, question: &Question, answer: oneshot::Sender<bool>) {
        if self.trouble.get() == Trouble::None {
            self.bars.ask(question, answer);
        }
    }

    /// Opens an address in the person's browser.
    pub fn open_link(&self, url: &str) {
        let window = self
            .web
            .webview()
            .toplevel()
            .and_then(|top| top.downcast::<gtk::Window>().ok());
        if let Err(error) = gtk::show_uri_on_window(window.as_ref(), url, gtk::current_event_time()) {
            tracing::warn!(%error, "no browser could be opened");
            let text = format!("No browser could be opened for {url}");
            self.bars.trouble(&text, &[("Close", false)], |_| {});
        }
    }

    /// Ends the page's process, and says why.
    pub fn stop(&self, why: &str) {
        if self.trouble.get() == Trouble::Ended {
            return;
        }
        self.ended(&format!("{} was stopped: {why}.", self.name));
        self.web.webview().terminate_web_process();
    }

    /// Evaluates in the page and hands back the value as JSON.
    #[cfg(feature = "test-hook")]
    pub fn read(&self, script: &str, reply: impl Fn(String) + Send + 'static) -> Result<(), String> {
        self.web
            .evaluate_script_with_callback(script, reply)
            .map_err(|error| error.to_string())
    }
}

/// What a page's context menu may offer: editing and copying, nothing that opens or saves.
fn useful(action: ContextMenuAction) -> bool {
    use ContextMenuAction as Action;
    matches!(
        action,
        Action::Copy
            | Action::Cut
            | Action::Paste
            | Action::Delete
            | Action::SelectAll
            | Action::CopyLinkToClipboard
            | Action::CopyImageToClipboard
            | Action::InputMethods
            | Action::Unicode
            | Action::SpellingGuess
            | Action::NoGuessesFound
            | Action::IgnoreSpelling
            | Action::LearnSpelling
    )
}
