//! From nothing to a streamed answer on the desktop: the launcher by WebDriver, Chat's window by real keys and clicks.
//! Pictures of every step are left under cargo's folder for tests.

mod desktop;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use desktop::screen::{self, Place, Window};
use desktop::{Desktop, pictures};
use serde_json::{Value, json};
use testkit::llmock::Llmock;
use testkit::{ModelServer, Out, Seen, wait_for};

const LAUNCHER: &str = "Chrysalis";
const FIELD: &str = "form.composer textarea";
const STOP: &str = "form.composer button.send[aria-label=Stop]";

/// What the last answer shows; empty before there is one.
const ANSWER: &str = "[...document.querySelectorAll('article:not(.mine) .markdown')].at(-1)?.innerText.trim() ?? ''";
const PENDING: &str = "document.querySelectorAll('article.pending').length";
const ARTICLES: &str = "document.querySelectorAll('article').length";

/// The three steps, as a person does them. Chat's window is open afterwards.
fn first_start(desktop: &Desktop, address: &str, model: &str, key: Option<&str>, look: &dyn Fn(&str)) {
    let page = &desktop.launcher;
    page.until_shown("What should apps call you?");
    look("1-name");
    let name = page.field("Your name");
    name.clear();
    name.keys("zoe");
    page.button("Continue").click();

    page.until_shown("Which model should answer?");
    page.until("the search for local servers", |page| {
        !page.text().contains("Looking for model servers")
    });
    page.until("the form for an address", |page| {
        let shown = page.shows("//label[normalize-space(.) = 'Address']");
        if !shown {
            page.button("Enter an address").click();
        }
        shown
    });
    look("2-model");
    page.field("Address").keys(address);
    if let Some(key) = key {
        page.field("Key").keys(key);
    }
    page.button("Connect").click();
    page.until_shown("is connected.");
    page.find(&format!("//option[contains(., '{model}')]")).click();
    look("3-connected");
    page.button("Continue").click();

    page.until_shown("Open your first app");
    page.button("Look at Chat").click();
    page.until_shown("It asks for");
    look("4-review");
    page.button("Add Chat and allow").click();
    chat(desktop);
}

/// Chat's window, when its page can be used.
fn chat(desktop: &Desktop) -> Window {
    let window = desktop.window("Chat");
    desktop.until(
        "chat",
        "Chat's field",
        &format!("!!document.querySelector('{FIELD}')"),
        |there| *there == true,
    );
    window
}

/// Clicks the middle of an element of an app's page with the real pointer.
fn click(desktop: &Desktop, window: Window, selector: &str) {
    let script = format!(
        "(() => {{ const r = document.querySelector('{selector}')?.getBoundingClientRect(); \
         return r && r.width > 0 ? [r.x + r.width / 2, r.y + r.height / 2, innerHeight] : null }})()"
    );
    let at = desktop.until("chat", selector, &script, Value::is_array);
    let number = |i: usize| at[i].as_f64().expect("a number") as i32;
    let height = window.place().expect("the window's place").height;
    // Bars of the window's own stand above the page.
    window.click(number(0), number(1) + height - number(2));
}

fn ask(desktop: &Desktop, window: Window, text: &str) {
    click(desktop, window, FIELD);
    window.write(text);
    desktop.until(
        "chat",
        "the typed text",
        &format!("document.querySelector('{FIELD}').value"),
        |value| *value == text,
    );
    window.key("Return");
}

fn answer(desktop: &Desktop, what: &str, fits: impl Fn(&str) -> bool) -> String {
    let got = desktop.until("chat", what, ANSWER, |text| fits(text.as_str().unwrap_or_default()));
    got.as_str().unwrap_or_default().to_owned()
}

fn finished(desktop: &Desktop) {
    desktop.until("chat", "the end of the answer", PENDING, |n| *n == 0);
}

/// What the scripted model server is told to do by a test.
#[derive(Default)]
struct Script {
    second: AtomicBool,
    last: AtomicBool,
    hung_up: AtomicBool,
}

impl Script {
    fn wait(flag: &AtomicBool, out: &Out) -> bool {
        while !flag.load(Ordering::SeqCst) {
            if out.gone() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }

    /// Answers by the last question: one that is withheld, one that is to be stopped, one that outlives its window.
    fn answer(&self, seen: &Seen, out: &mut Out) {
        let body: Value = serde_json::from_str(&seen.body).unwrap_or_default();
        let question = body["messages"]
            .as_array()
            .and_then(|all| all.last())
            .cloned()
            .unwrap_or_default();
        let question = question["content"].as_str().unwrap_or_default().to_owned();
        out.begin();
        if question.contains("withhold") {
            out.delta("first");
            Self::wait(&self.second, out);
            out.delta(" second");
        } else if question.contains("endless") {
            out.delta("kept");
            if !Self::wait(&AtomicBool::new(false), out) {
                self.hung_up.store(true, Ordering::SeqCst);
            }
            return;
        } else {
            out.delta("one");
            Self::wait(&self.last, out);
            out.delta(" two");
        }
        out.done();
    }
}

fn shot(folder: &Path) -> impl Fn(&str) + '_ {
    move |name| screen::picture(&folder.join(format!("{name}.png")))
}

#[test]
fn from_nothing_to_a_streamed_answer_and_what_stays_of_it() {
    let folder = pictures("desktop-first-start");
    let look = shot(&folder);
    let script = Arc::new(Script::default());
    let scripted = script.clone();
    let server = ModelServer::start(move |seen, out| scripted.answer(seen, out));
    let home = desktop::home();
    let mut desktop = Desktop::start(&home);
    first_start(&desktop, &server.url(), "m", Some("sk-typed-by-a-person"), &look);
    let window = chat(&desktop);
    look("5-chat-empty");

    // The page shows the first piece while the server still withholds the second.
    ask(&desktop, window, "withhold please");
    answer(&desktop, "the first piece", |text| !text.is_empty());
    assert_eq!(desktop.eval("chat", ANSWER), "first");
    assert!(!script.second.load(Ordering::SeqCst));
    look("6-chat-first-piece");
    script.second.store(true, Ordering::SeqCst);
    answer(&desktop, "the whole answer", |text| text == "first second");
    finished(&desktop);
    look("7-chat-whole");
    let asked = server.seen();
    let asked = asked.iter().filter(|seen| seen.method == "POST");
    assert!(asked.clone().count() > 0);
    for seen in asked {
        assert_eq!(seen.header("authorization"), "Bearer sk-typed-by-a-person");
    }

    // A stop by mouse ends the request to the server and keeps what had arrived.
    ask(&desktop, window, "endless please");
    answer(&desktop, "the piece before the stop", |text| text == "kept");
    click(&desktop, window, STOP);
    wait_for("the engine to hang up", || {
        script.hung_up.load(Ordering::SeqCst).then_some(())
    });
    finished(&desktop);
    assert_eq!(desktop.eval("chat", ANSWER), "kept");
    desktop.until("chat", "the note", "document.body.innerText", |text| {
        text.as_str()
            .is_some_and(|text| text.contains("Stopped. What had arrived is kept."))
    });
    look("8-chat-stopped");

    // A window closed in the middle of an answer, opened again by a click in the launcher, finds it.
    ask(&desktop, window, "outlive the window");
    answer(&desktop, "the piece before the window closes", |text| text == "one");
    let place = Place {
        x: 210,
        y: 60,
        width: 800,
        height: 640,
    };
    window.put(place);
    window.close();
    assert!(
        desktop.try_eval("chat", "1").is_err(),
        "the page is gone with its window"
    );
    let launcher = desktop.window(LAUNCHER);
    launcher.focus();
    desktop.launcher.until_shown("Apps");
    launcher.put(Place {
        x: 0,
        y: 0,
        width: 390,
        height: 800,
    });
    look("9-home-narrow");
    launcher.put(Place {
        x: 0,
        y: 0,
        width: 1280,
        height: 800,
    });
    look("9-home-wide");
    desktop
        .launcher
        .find("//button[contains(., 'Chat') and not(contains(., 'Remove'))]")
        .click();
    let window = chat(&desktop);
    assert_eq!(window.place(), Some(place), "the window is where it was");
    answer(&desktop, "the answer that went on", |text| text == "one");
    script.last.store(true, Ordering::SeqCst);
    answer(&desktop, "the rest of it", |text| text == "one two");
    finished(&desktop);
    desktop.until("chat", "all six messages", ARTICLES, |n| *n == 6);

    // Conversations, the name, the model and the window's place survive a restart of the program.
    let launcher_place = Place {
        x: 30,
        y: 20,
        width: 1100,
        height: 700,
    };
    launcher.put(launcher_place);
    desktop.stop();
    drop(desktop);
    let desktop = Desktop::start_with(&home, &[("GTK_THEME", "Adwaita:dark")]);
    assert_eq!(desktop.window(LAUNCHER).place(), Some(launcher_place));
    desktop.launcher.until_shown("Apps");
    look("10-home-dark");
    let (_, me) = desktop.call("GET", "/v1/me", &Value::Null);
    assert_eq!(me["username"], "zoe");
    desktop.open("chat");
    let window = chat(&desktop);
    assert_eq!(window.place(), Some(place));
    desktop.until("chat", "all six messages", ARTICLES, |n| *n == 6);
    assert_eq!(desktop.eval("chat", ANSWER), "one two");
    window.put(Place {
        x: 0,
        y: 0,
        width: 1280,
        height: 800,
    });
    look("11-chat-wide-dark");
    window.put(Place {
        x: 0,
        y: 0,
        width: 390,
        height: 800,
    });
    look("12-chat-narrow-dark");
    window.close();
    let launcher = desktop.window(LAUNCHER);
    for (screen, heading) in [("Settings", "Settings"), ("Activity", "Activity"), ("Apps", "Apps")] {
        desktop
            .launcher
            .find(&format!("//a[normalize-space(.) = '{screen}']"))
            .click();
        desktop.launcher.until_shown(heading);
        for (name, width) in [("wide", 1280), ("narrow", 390)] {
            launcher.put(Place {
                x: 0,
                y: 0,
                width,
                height: 800,
            });
            launcher.focus();
            look(&format!("13-{}-{name}-dark", screen.to_lowercase()));
        }
    }
}

#[test]
fn an_answer_of_a_model_server_that_nobody_here_wrote_grows_in_the_page() {
    let Some(llmock) = Llmock::start(&["--response-style", "echo", "--stream-chunk-delay-ms", "60"]) else {
        return;
    };
    let folder = pictures("desktop-llmock");
    let look = shot(&folder);
    let home = desktop::home();
    let desktop = Desktop::start(&home);
    first_start(&desktop, &llmock.url(), "gpt-4o-mini", None, &look);
    let window = chat(&desktop);
    let question = format!("rain{}", " a b c d e".repeat(11));
    ask(&desktop, window, &question);
    let whole = format!("Hello! You said: {question}");
    let part = answer(&desktop, "a part of the answer", |text| {
        !text.is_empty() && text.len() < whole.len()
    });
    assert!(whole.starts_with(&part), "not a beginning of the answer: {part}");
    look("chat-growing");
    answer(&desktop, "the whole answer", |text| text == whole);
    finished(&desktop);
    look("chat-whole");
    let (_, settings) = desktop.call("GET", "/v1/settings", &json!(null));
    assert!(
        settings["model"]
            .as_str()
            .is_some_and(|model| model.ends_with("/gpt-4o-mini")),
        "{settings}"
    );
}
