//! Whether anything on this desktop shows tray icons. The tray library cannot tell: it draws into nothing as happily.

use std::cell::Cell;
use std::rc::Rc;

use gtk::gio::{self, BusType, DBusCallFlags, DBusConnection, DBusSignalFlags};
use gtk::glib::{self, ToVariant, Variant, VariantTy};

const WATCHER: &str = "org.kde.StatusNotifierWatcher";
const PATH: &str = "/StatusNotifierWatcher";
const BUS: &str = "org.freedesktop.DBus";
const ANSWER_MS: i32 = 1_000;

/// Calls `changed` on the main thread with whether a tray host is there: once it is known, and whenever it changes.
/// Without a session bus there is none.
pub fn watch_tray_host(changed: impl Fn(bool) + 'static) {
    let last = Rc::new(Cell::new(None));
    let changed: Rc<dyn Fn(bool)> = Rc::new(move |there| {
        if last.replace(Some(there)) != Some(there) {
            changed(there);
        }
    });
    glib::MainContext::default().spawn_local(async move {
        let Ok(bus) = gio::bus_get_future(BusType::Session).await else {
            return changed(false);
        };
        // The host comes or goes, or the watcher itself does.
        let signals = [
            (WATCHER, WATCHER, "StatusNotifierHostRegistered", None),
            (WATCHER, WATCHER, "StatusNotifierHostUnregistered", None),
            (BUS, BUS, "NameOwnerChanged", Some(WATCHER)),
        ];
        for (sender, interface, signal, about) in signals {
            let changed = changed.clone();
            bus.signal_subscribe(
                Some(sender),
                Some(interface),
                Some(signal),
                None,
                about,
                DBusSignalFlags::NONE,
                move |bus, _, _, _, _, _| ask(bus.clone(), changed.clone()),
            );
        }
        ask(bus, changed);
    });
}

fn ask(bus: DBusConnection, changed: Rc<dyn Fn(bool)>) {
    glib::MainContext::default().spawn_local(async move {
        let answer = bus
            .call_future(
                Some(WATCHER),
                PATH,
                "org.freedesktop.DBus.Properties",
                "Get",
                Some(&(WATCHER, "IsStatusNotifierHostRegistered").to_variant()),
                VariantTy::new("(v)").ok(),
                DBusCallFlags::NO_AUTO_START,
                ANSWER_MS,
            )
            .await;
        let there = answer
            .ok()
            .and_then(|answer| answer.get::<(Variant,)>()?.0.get::<bool>());
        changed(there.unwrap_or(false));
    });
}
