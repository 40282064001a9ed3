//! The virtual screen: windows by their titles, real keys and clicks, pictures. There is no window manager on it, so a
//! window is closed the way a window manager would: by the message of the ICCCM.

use std::ffi::{c_char, c_int, c_long, c_ulong, c_void};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use testkit::wait_for;

/// Time for what a page holds to be drawn without a graphics card.
const DRAWN: Duration = Duration::from_millis(1200);

/// A window of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window(pub u64);

/// Where a window is, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub x: i32,
    pub y: i32,
    pub width: i32,
    pub height: i32,
}

fn xdotool(args: &[&str]) -> Option<String> {
    let output = Command::new("xdotool").args(args).output().expect("xdotool starts");
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The visible window with this whole title.
pub fn find(title: &str) -> Option<Window> {
    let pattern = format!("^{title}$");
    let found = xdotool(&["search", "--onlyvisible", "--name", &pattern])?;
    let mut windows = found.lines().filter_map(|line| line.trim().parse().ok()).map(Window);
    windows.find(|window| window.place().is_some_and(|place| place.width > 100))
}

/// Every visible window with a name.
pub fn visible() -> Vec<u64> {
    let found = xdotool(&["search", "--onlyvisible", "--name", "."]).unwrap_or_default();
    let mut windows: Vec<u64> = found.lines().filter_map(|line| line.trim().parse().ok()).collect();
    windows.sort_unstable();
    windows
}

/// The whole screen as a PNG file, once what the page holds has been drawn. For people to look at: no test depends on
/// how long that takes.
pub fn picture(path: &Path) {
    std::thread::sleep(DRAWN);
    let taken = Command::new("import").args(["-window", "root"]).arg(path).status();
    assert!(taken.is_ok_and(|status| status.success()), "no picture of the screen");
}

impl Window {
    fn id(self) -> String {
        self.0.to_string()
    }

    pub fn place(self) -> Option<Place> {
        let text = xdotool(&["getwindowgeometry", "--shell", &self.id()])?;
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().parse().ok()
        };
        Some(Place {
            x: value("X=")?,
            y: value("Y=")?,
            width: value("WIDTH=")?,
            height: value("HEIGHT=")?,
        })
    }

    pub fn put(self, place: Place) {
        let size = (place.width.to_string(), place.height.to_string());
        let at = (place.x.to_string(), place.y.to_string());
        xdotool(&["windowsize", &self.id(), &size.0, &size.1]);
        xdotool(&["windowmove", &self.id(), &at.0, &at.1]);
        wait_for("the window's new place", || (self.place() == Some(place)).then_some(()));
    }

    /// The colour of one of its points, as ImageMagick writes it.
    pub fn colour(self, x: i32, y: i32) -> String {
        let (id, point) = (self.id(), format!("1x1+{x}+{y}"));
        let taken = Command::new("import")
            .args(["-window", &id, "-crop", &point, "-depth", "8", "txt:-"])
            .output();
        let text = taken.expect("import starts").stdout;
        let text = String::from_utf8_lossy(&text);
        let colour = text
            .split_whitespace()
            .find(|word| word.starts_with('#') && word.len() >= 7);
        colour.unwrap_or_default().to_owned()
    }

    /// Brings it to the front and gives it the keyboard.
    pub fn focus(self) {
        xdotool(&["windowraise", &self.id()]);
        xdotool(&["windowfocus", "--sync", &self.id()]);
    }

    /// A click of the left button at a point of the window.
    pub fn click(self, x: i32, y: i32) {
        self.focus();
        let (x, y) = (x.to_string(), y.to_string());
        xdotool(&["mousemove", "--window", &self.id(), &x, &y, "click", "1"]).expect("a click");
    }

    pub fn write(self, text: &str) {
        self.focus();
        xdotool(&["type", "--delay", "12", "--", text]).expect("keys");
    }

    pub fn key(self, name: &str) {
        self.focus();
        xdotool(&["key", "--", name]).expect("a key");
    }

    /// Asks the window to close, as its close button would.
    pub fn close(self) {
        ask_to_close(self.0);
        wait_for("the window to close", || (!visible().contains(&self.0)).then_some(()));
    }
}

/// Xlib's `XClientMessageEvent`, within the 24 longs of an `XEvent`.
#[repr(C)]
struct ClientMessage {
    kind: c_int,
    serial: c_ulong,
    send_event: c_int,
    display: *mut c_void,
    window: c_ulong,
    message_type: c_ulong,
    format: c_int,
    data: [c_long; 5],
    rest: [c_long; 12],
}

const CLIENT_MESSAGE: c_int = 33;

#[link(name = "X11")]
unsafe extern "C" {
    fn XOpenDisplay(name: *const c_char) -> *mut c_void;
    fn XInternAtom(display: *mut c_void, name: *const c_char, only_if_exists: c_int) -> c_ulong;
    fn XSendEvent(
        display: *mut c_void,
        window: c_ulong,
        propagate: c_int,
        mask: c_long,
        event: *mut ClientMessage,
    ) -> c_int;
    fn XCloseDisplay(display: *mut c_void) -> c_int;
}

fn ask_to_close(window: u64) {
    // SAFETY: a connection of our own, closed at the end; the event is as large as an `XEvent`, which is a union of
    // 24 longs.
    unsafe {
        let display = XOpenDisplay(std::ptr::null());
        assert!(!display.is_null(), "no connection to the screen");
        let mut event = ClientMessage {
            kind: CLIENT_MESSAGE,
            serial: 0,
            send_event: 1,
            display,
            window: window as c_ulong,
            message_type: XInternAtom(display, c"WM_PROTOCOLS".as_ptr(), 0),
            format: 32,
            data: [
                XInternAtom(display, c"WM_DELETE_WINDOW".as_ptr(), 0) as c_long,
                0,
                0,
                0,
                0,
            ],
            rest: [0; 12],
        };
        XSendEvent(display, window as c_ulong, 0, 0, &mut event);
        XCloseDisplay(display);
    }
}
