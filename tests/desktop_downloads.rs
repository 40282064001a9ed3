//! Files that a page hands over: written only after the person's click above the page, under a name that is safe.

mod desktop;

use std::fs;

use desktop::{Desktop, home, pictures, screen};
use testkit::{AppFolder, wait_for};

const SAVE: &str = r#"
globalThis.save = (name, text) => {
  const a = document.createElement("a");
  a.href = URL.createObjectURL(new Blob([text]));
  a.download = name;
  document.body.append(a);
  a.click();
};
"#;

#[test]
fn a_file_is_saved_by_the_persons_click_and_by_nothing_else() {
    let folder = pictures("desktop-downloads");
    let home = home();
    let desktop = Desktop::start(&home);
    let app = AppFolder::new(home.folder(), "notes");
    app.file("app.js", SAVE);
    desktop.add(app.path(), "notes");
    desktop.no_first_start();
    desktop.open("notes");
    let window = desktop.window("notes");
    let downloads = home.folder().join("Downloads");
    let saved = || -> Vec<String> {
        let files = fs::read_dir(&downloads).into_iter().flatten().flatten();
        files
            .map(|file| file.file_name().to_string_lossy().into_owned())
            .collect()
    };
    let whole = window.place().expect("the window's place").height;
    let bar = |shown: bool| {
        desktop.until("notes", "the bar", "innerHeight", |height| {
            height
                .as_i64()
                .is_some_and(|height| (height < i64::from(whole)) == shown)
        })
    };

    // Declined: the rightmost button.
    desktop.eval("notes", "save('declined.txt', 'no'); 1");
    bar(true);
    screen::picture(&folder.join("question.png"));
    let width = window.place().expect("the window's place").width;
    window.click(width - 55, 24);
    bar(false);
    assert_eq!(saved(), Vec::<String>::new());

    // The page cannot answer by itself, neither by script nor by keys that go to it.
    desktop.eval("notes", "save('../../\\u202egnp.sh', 'yes'); 1");
    bar(true);
    desktop.eval(
        "notes",
        "document.querySelectorAll('button').forEach((b) => b.click()); document.body.click(); 1",
    );
    assert_eq!(saved(), Vec::<String>::new());
    // The buttons sleep for a moment, so a click may be needed twice.
    wait_for("the saved file", || {
        window.click(width - 180, 24);
        std::thread::sleep(std::time::Duration::from_millis(200));
        saved().pop()
    });
    assert_eq!(saved(), ["gnp.sh"]);
    assert_eq!(fs::read_to_string(downloads.join("gnp.sh")).unwrap(), "yes");
    assert!(!home.folder().join("gnp.sh").exists());

    // A question goes when the page that asked is loaded anew, and does not stand in the way of the new page's own.
    bar(false);
    desktop.eval("notes", "save('earlier.txt', 'no'); 1");
    bar(true);
    desktop.mark_stale("notes");
    desktop.eval("notes", "location.reload(); 1");
    let whole_again = format!("globalThis.stale !== true && typeof save === 'function' && innerHeight >= {whole}");
    desktop.until("notes", "the new page without a bar", &whole_again, |value| {
        *value == true
    });
    desktop.eval("notes", "save('later.txt', 'yes'); 1");
    bar(true);
    wait_for("the later file", || {
        window.click(width - 180, 24);
        std::thread::sleep(std::time::Duration::from_millis(200));
        saved().contains(&"later.txt".to_owned()).then_some(())
    });
    let mut names = saved();
    names.sort();
    assert_eq!(names, ["gnp.sh", "later.txt"]);
}
