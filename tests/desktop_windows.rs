//! Windows that come, go and come back: nobody is left with a program that runs and cannot be reached.

mod desktop;

use std::process::Stdio;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use desktop::screen::{self, Place};
use desktop::{Desktop, command, home, pictures};
use gtk::gio;
use gtk::glib::{self, ToVariant};
use serde_json::{Value, json};
use testkit::{AppFolder, Home, process, wait_for};

const LAUNCHER: &str = "Chrysalis";

fn with_an_app(home: &Home) -> Desktop {
    let desktop = Desktop::start(home);
    desktop.add(AppFolder::new(home.folder(), "notes").path(), "notes");
    desktop.no_first_start();
    desktop
}

/// Starts the program a second time on the same home and waits for that to end.
fn second_start(home: &Home) {
    let mut second = command(home, &[])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let status = wait_for("the second start to end", || second.try_wait().ok().flatten());
    assert!(status.success(), "{status}");
}

fn hidden(title: &str) {
    wait_for(&format!("{title} to be hidden"), || {
        screen::find(title).is_none().then_some(())
    });
}

#[test]
fn a_second_start_brings_the_first_forward_and_no_engine_of_its_own() {
    let home = home();
    let desktop = with_an_app(&home);
    desktop.open("notes");
    let (pid, place) = (
        desktop.pid,
        Place {
            x: 50,
            y: 40,
            width: 700,
            height: 500,
        },
    );
    let launcher = desktop.window(LAUNCHER);
    launcher.put(place);
    launcher.close();
    assert!(desktop.runs(), "an app's window is open");
    assert!(screen::find("notes").is_some());
    second_start(&home);
    let launcher = desktop.window(LAUNCHER);
    assert_eq!(launcher.place(), Some(place));
    assert_eq!((desktop.pid, desktop.runs()), (pid, true));
    assert_eq!(desktop.call("GET", "/v1/me", &Value::Null).0, 200);
    assert_eq!(desktop.eval("notes", "1 + 1"), 2);
}

#[test]
fn with_no_tray_the_last_window_ends_the_program() {
    // The launcher last.
    let home = home();
    let desktop = with_an_app(&home);
    desktop.open("notes");
    desktop.window("notes").close();
    assert!(desktop.runs());
    desktop.window(LAUNCHER).close();
    wait_for("the program to end", || (!desktop.runs()).then_some(()));
    drop(desktop);

    // An app's window last.
    let desktop = Desktop::start(&home);
    desktop.open("notes");
    desktop.window(LAUNCHER).close();
    assert!(desktop.runs());
    desktop.window("notes").close();
    wait_for("the program to end", || (!desktop.runs()).then_some(()));
    drop(desktop);

    // And it starts again as if nothing had been.
    let desktop = Desktop::start(&home);
    assert_eq!(desktop.call("GET", "/v1/me", &Value::Null).0, 200);
}

#[test]
fn a_removed_app_takes_its_window_along() {
    let home = home();
    let desktop = with_an_app(&home);
    desktop.add(AppFolder::new(home.folder(), "other").path(), "other");
    desktop.open("notes");
    desktop.open("other");
    // By the command line.
    let removed = home.command(&["app", "remove", "notes"]).output();
    let removed = removed.expect("the program starts");
    assert!(removed.status.success(), "{removed:?}");
    hidden("notes");
    assert_eq!(
        desktop.eval("other", "1 + 1"),
        2,
        "only the removed app's window closes"
    );
    // Added again it is opened as if it had never been.
    desktop.add(&home.folder().join("notes"), "notes");
    desktop.open("notes");
    desktop.window("notes");
    // From the launcher; and a page that does not let go is no different.
    desktop.eval("other", "setTimeout(() => { for (;;); }, 0); 1");
    assert_eq!(desktop.call("DELETE", "/v1/apps/other", &Value::Null).0, 204);
    hidden("other");
    assert!(desktop.try_eval("other", "1").is_err());
    assert_eq!(desktop.eval("notes", "1 + 1"), 2);
}

#[test]
fn who_chose_to_wait_for_a_page_is_not_asked_again_at_once() {
    let folder = pictures("desktop-wait");
    let home = home();
    let desktop = with_an_app(&home);
    let process = desktop.open_process("notes");
    let window = desktop.window("notes");
    window.focus();
    let colour = || window.colour(8, 8);
    desktop.eval(
        "notes",
        "document.documentElement.style.background = 'rgb(255, 0, 0)'; 1",
    );
    wait_for("the red page", || colour().starts_with("#FF0000").then_some(()));
    desktop.eval("notes", "setTimeout(() => { for (;;); }, 0); 1");
    let bar = wait_for("the offer", || {
        Some(colour()).filter(|colour| !colour.starts_with("#FF0000"))
    });
    screen::picture(&folder.join("offer.png"));
    let mut chosen = Instant::now();
    wait_for("the offer to go away", || {
        if colour() != bar {
            return Some(());
        }
        chosen = Instant::now();
        window.click(window.place()?.width - 120, 24);
        std::thread::sleep(Duration::from_millis(200));
        None
    });
    assert!(process::runs(process), "the page was not loaded again");
    screen::picture(&folder.join("waiting.png"));
    wait_for("the offer again", || (colour() == bar).then_some(()));
    let waited = chosen.elapsed();
    println!("asked again after {waited:.1?}");
    assert!(waited >= Duration::from_secs(9), "asked again after {waited:?}");
    assert!(process::runs(process));
}

/// Something that shows tray icons, on the test's own session bus: just enough of one to be believed.
struct TrayHost {
    end: glib::MainLoop,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// What registered with it: a connection's name and the path of an object there.
struct Item {
    owner: String,
    path: String,
}

const WATCHER: &str = "<node><interface name='org.kde.StatusNotifierWatcher'>\
    <method name='RegisterStatusNotifierItem'><arg type='s' direction='in'/></method>\
    <property name='IsStatusNotifierHostRegistered' type='b' access='read'/>\
    <property name='RegisteredStatusNotifierItems' type='as' access='read'/>\
    <property name='ProtocolVersion' type='i' access='read'/>\
    <signal name='StatusNotifierHostRegistered'/></interface></node>";

impl TrayHost {
    /// Gives the host and what registers with it.
    fn start() -> (TrayHost, mpsc::Receiver<Item>) {
        let (ready, started) = mpsc::channel();
        let (tell, items) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let context = glib::MainContext::new();
            let main = glib::MainLoop::new(Some(&context), false);
            let running = main.clone();
            context
                .with_thread_default(move || {
                    let address = std::env::var("DBUS_SESSION_BUS_ADDRESS").expect("a session bus");
                    let flags = gio::DBusConnectionFlags::AUTHENTICATION_CLIENT
                        | gio::DBusConnectionFlags::MESSAGE_BUS_CONNECTION;
                    let bus = gio::DBusConnection::for_address_sync(&address, flags, None, gio::Cancellable::NONE)
                        .expect("the session bus");
                    let node = gio::DBusNodeInfo::for_xml(WATCHER).expect("an interface");
                    let interface = node
                        .lookup_interface("org.kde.StatusNotifierWatcher")
                        .expect("an interface");
                    bus.register_object(
                        "/StatusNotifierWatcher",
                        &interface,
                        move |_, owner, _, _, _, arguments, call| {
                            let owner = owner.to_owned();
                            let path = arguments.child_value(0).str().unwrap_or_default().to_owned();
                            let _ = tell.send(Item { owner, path });
                            call.return_value(None);
                        },
                        |_, _, _, _, name| match name {
                            "IsStatusNotifierHostRegistered" => true.to_variant(),
                            "ProtocolVersion" => 0i32.to_variant(),
                            _ => Vec::<String>::new().to_variant(),
                        },
                        |_, _, _, _, _, _| false,
                    )
                    .expect("an object on the bus");
                    gio::bus_own_name_on_connection(
                        &bus,
                        "org.kde.StatusNotifierWatcher",
                        gio::BusNameOwnerFlags::NONE,
                        |_, _| {},
                        |_, _| {},
                    );
                    ready.send(running.clone()).expect("the test waits");
                    running.run();
                    let _ = bus.close_sync(gio::Cancellable::NONE);
                })
                .expect("a context of the thread's own");
            drop(main);
        });
        let end = started.recv().expect("the host starts");
        let host = TrayHost {
            end,
            thread: Some(thread),
        };
        (host, items)
    }
}

impl Drop for TrayHost {
    fn drop(&mut self) {
        self.end.quit();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[test]
fn with_a_tray_the_program_stays_and_when_the_tray_goes_nobody_is_stranded() {
    let (host, items) = TrayHost::start();
    let home = home();
    let desktop = with_an_app(&home);
    items.recv_timeout(testkit::PATIENCE).expect("a tray icon");
    desktop.window(LAUNCHER).close();
    hidden(LAUNCHER);
    assert!(desktop.runs(), "the tray's icon leads back");
    second_start(&home);
    desktop.window(LAUNCHER);
    desktop.open("notes");
    desktop.window(LAUNCHER).close();
    hidden(LAUNCHER);
    // The way back in goes away: the launcher shows itself.
    drop(host);
    desktop.window(LAUNCHER);
    assert!(desktop.runs());
    assert_eq!(desktop.eval("notes", "1 + 1"), json!(2));
}

/// The program's tray icon as what shows it would read it.
struct TrayItem {
    bus: gio::DBusConnection,
    item: Item,
}

impl TrayItem {
    fn of(item: Item) -> TrayItem {
        let address = std::env::var("DBUS_SESSION_BUS_ADDRESS").expect("a session bus");
        let flags = gio::DBusConnectionFlags::AUTHENTICATION_CLIENT | gio::DBusConnectionFlags::MESSAGE_BUS_CONNECTION;
        let bus = gio::DBusConnection::for_address_sync(&address, flags, None, gio::Cancellable::NONE)
            .expect("the session bus");
        TrayItem { bus, item }
    }

    fn ask(&self, path: &str, interface: &str, method: &str, arguments: &glib::Variant) -> glib::Variant {
        let answer = self.bus.call_sync(
            Some(&self.item.owner),
            path,
            interface,
            method,
            Some(arguments),
            None,
            gio::DBusCallFlags::NONE,
            10_000,
            gio::Cancellable::NONE,
        );
        answer.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    fn menu(&self) -> String {
        let which = ("org.kde.StatusNotifierItem", "Menu").to_variant();
        let answer = self.ask(&self.item.path, "org.freedesktop.DBus.Properties", "Get", &which);
        let path = answer.child_value(0).as_variant().expect("a value");
        path.str().expect("a path").to_owned()
    }

    /// The menu's lines: number and text.
    fn lines(&self) -> Vec<(i32, String)> {
        let all = (0i32, -1i32, Vec::<String>::new()).to_variant();
        let answer = self.ask(&self.menu(), "com.canonical.dbusmenu", "GetLayout", &all);
        let children = answer.child_value(1).child_value(2);
        let lines = children.iter().filter_map(|child| {
            let child = child.as_variant()?;
            let id = child.child_value(0).get::<i32>()?;
            let properties = glib::VariantDict::new(Some(&child.child_value(1)));
            let label = properties.lookup_value("label", None)?;
            Some((id, label.str()?.to_owned()))
        });
        lines.collect()
    }

    /// Clicks a line, once it is there.
    fn click(&self, text: &str) {
        let id = wait_for(&format!("{text:?} in the tray's menu"), || {
            let line = self.lines().into_iter().find(|(_, label)| label == text);
            line.map(|(id, _)| id)
        });
        let event = (id, "clicked", 0i32.to_variant().to_variant(), 0u32).to_variant();
        self.ask(&self.menu(), "com.canonical.dbusmenu", "Event", &event);
    }
}

#[test]
fn the_trays_menu_opens_the_launcher_and_apps_and_ends_the_program() {
    let (_host, items) = TrayHost::start();
    let home = home();
    let desktop = with_an_app(&home);
    let item = TrayItem::of(items.recv_timeout(testkit::PATIENCE).expect("a tray icon"));
    let texts = || item.lines().into_iter().map(|(_, text)| text).collect::<Vec<_>>();
    wait_for("the menu", || {
        (texts().contains(&"Quit".to_owned()) && !texts().contains(&"notes".to_owned())).then_some(())
    });
    desktop.window(LAUNCHER).close();
    hidden(LAUNCHER);
    item.click("Open Chrysalis");
    desktop.window(LAUNCHER);

    desktop.open("notes");
    desktop.window("notes").close();
    item.click("notes");
    desktop.window("notes");
    desktop.until("notes", "the page", "document.readyState", |state| *state == "complete");
    // An app that is gone is no longer offered.
    desktop.command_line().send("DELETE", "/v1/apps/notes", &json!({})).ok();
    hidden("notes");
    wait_for("the menu without the app", || {
        (!texts().contains(&"notes".to_owned())).then_some(())
    });
    assert!(desktop.runs());
    item.click("Quit");
    wait_for("the program to end", || (!desktop.runs()).then_some(()));
}
