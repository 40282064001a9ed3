//! A program killed at each of its system calls, one after the other, while it changes an app's data: the next start
//! finds every file as it was before, or as it is after, and never between. Also when that start is killed in turn.

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("stopping a program at each system call is only done on Linux");
}

#[cfg(target_os = "linux")]
fn main() {
    let args: Vec<String> = std::env::args().collect();
    match args.get(1).map(String::as_str) {
        Some("child") => child::run(&args[2], std::path::Path::new(&args[3])),
        _ => {
            whole::transactions_are_all_or_nothing();
            whole::single_changes_are_all_or_nothing();
        }
    }
}

#[cfg(target_os = "linux")]
mod child {
    use std::path::Path;

    use files::{FileError, Folder, GuestFolder};

    pub fn open(base: &Path) -> Result<GuestFolder, FileError> {
        GuestFolder::open(&Folder::open_ambient(base)?, "data")
    }

    pub fn run(role: &str, base: &Path) {
        // Opened before the count begins where opening is not what is tested.
        match role {
            "transaction" => {
                let folder = open(base).unwrap();
                begin_counting();
                transaction(&folder).unwrap();
            }
            "recovery" => {
                begin_counting();
                open(base).unwrap();
            }
            "singly" => {
                let folder = open(base).unwrap();
                begin_counting();
                for step in STEPS {
                    step(&folder).unwrap();
                }
            }
            other => panic!("no role {other}"),
        }
    }

    fn begin_counting() {
        // SAFETY: sends a signal to this process itself.
        unsafe { libc::raise(libc::SIGSTOP) };
    }

    /// Each verb, on what was there, on what is new, and twice on the same.
    pub fn transaction(folder: &GuestFolder) -> Result<(), FileError> {
        folder.transaction(|all| {
            all.write("a.txt", b"a after")?;
            all.write("new/deep/b.txt", b"b after")?;
            all.write("new/deep/b.txt", b"b again")?;
            all.append("log.txt", b"second\n")?;
            all.append("log.txt", b"third\n")?;
            all.append("new.log", b"first\n")?;
            all.remove("tree")?;
            all.write("tree/one.txt", b"in another tree")?;
            all.rename("from.txt", "to.txt")?;
            all.rename("folder", "new/moved")?;
            all.append("new/moved/x.txt", b", longer")?;
            all.remove("gone.txt")?;
            let mut upload = folder.upload("a.txt")?;
            upload.write(b"a in ")?;
            upload.write(b"pieces")?;
            all.place(upload)?;
            all.mkdir("empty/er")
        })
    }

    pub type Step = fn(&GuestFolder) -> Result<(), FileError>;
    /// Each is one change for whoever looks.
    pub const STEPS: &[Step] = &[
        |folder| folder.write("a.txt", b"a after"),
        |folder| folder.write("tree/new.txt", b"new"),
        |folder| folder.append("log.txt", b"second\n"),
        |folder| folder.rename("from.txt", "to.txt"),
        |folder| folder.remove("tree"),
        |folder| folder.rename("folder", "moved"),
        |folder| folder.remove("gone.txt"),
        |folder| folder.mkdir("made"),
    ];
}

#[cfg(target_os = "linux")]
mod whole {
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::unix::process::CommandExt;
    use std::path::Path;
    use std::process::{Child, Command, Stdio};

    use tempfile::TempDir;

    use super::child;

    type Tree = BTreeMap<String, Option<String>>;

    fn place() -> TempDir {
        let base = TempDir::new().unwrap();
        let data = base.path().join("data");
        fs::create_dir_all(data.join("tree/inner")).unwrap();
        fs::create_dir_all(data.join("folder")).unwrap();
        for (path, text) in [
            ("a.txt", "a before"),
            ("log.txt", "first\n"),
            ("tree/one.txt", "one"),
            ("tree/inner/two.txt", "two"),
            ("from.txt", "from"),
            ("to.txt", "to"),
            ("folder/x.txt", "x"),
            ("gone.txt", "gone"),
        ] {
            fs::write(data.join(path), text).unwrap();
        }
        base
    }

    /// Everything in the data folder: text of a file, nothing for a folder. Nothing of ours may be left in it.
    fn tree(base: &Path) -> Tree {
        fn add(at: &Path, above: &str, found: &mut Tree) {
            for entry in fs::read_dir(at).unwrap() {
                let entry = entry.unwrap();
                let name = format!("{above}{}", entry.file_name().to_str().unwrap());
                if name == ".writing-now" {
                    assert_eq!(fs::read_dir(entry.path()).unwrap().count(), 0, "an upload is left");
                    continue;
                }
                assert!(
                    !name.contains(".txn-") && !name.contains("recovered-"),
                    "{name} is left"
                );
                if entry.file_type().unwrap().is_dir() {
                    add(&entry.path(), &format!("{name}/"), found);
                    found.insert(name, None);
                } else {
                    found.insert(name, Some(fs::read_to_string(entry.path()).unwrap()));
                }
            }
        }
        let mut found = Tree::new();
        add(&base.join("data"), "", &mut found);
        found
    }

    /// Runs a child and kills it before its system call number `call` (from 0, counted from where it says so). Whether
    /// it was killed; `false` when it made fewer calls and ended by itself.
    fn killed_at(role: &str, base: &Path, call: usize) -> bool {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg("child").arg(role).arg(base).stdin(Stdio::null());
        // SAFETY: only asks to be traced, between fork and exec.
        unsafe {
            command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        let mut child = command.spawn().expect("a child that lets itself be traced");
        // It stops as it begins, and then where the count begins.
        assert_eq!(wait(&child), Some(libc::SIGTRAP));
        go(&child, libc::PTRACE_CONT);
        assert_eq!(wait(&child), Some(libc::SIGSTOP));
        // Each call stops it twice, before and after.
        for _ in 0..=call * 2 {
            go(&child, libc::PTRACE_SYSCALL);
            if wait(&child).is_none() {
                // It is waited for already, which `Child` does not know.
                let _ = child.wait();
                return false;
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        true
    }

    fn go(child: &Child, how: libc::c_uint) {
        // SAFETY: the process is our stopped child.
        let done = unsafe { libc::ptrace(how, child.id() as libc::pid_t, 0, 0) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    }

    /// The signal the child stopped with, or `None` when it ended well.
    fn wait(child: &Child) -> Option<i32> {
        let mut status = 0;
        // SAFETY: `status` outlives the call, and the process is our child.
        let pid = unsafe { libc::waitpid(child.id() as libc::pid_t, &mut status, libc::__WALL) };
        assert_eq!(pid, child.id() as libc::pid_t);
        if libc::WIFSTOPPED(status) {
            return Some(libc::WSTOPSIG(status));
        }
        assert!(
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
            "status {status:#x}"
        );
        None
    }

    pub fn transactions_are_all_or_nothing() {
        let model = place();
        let before = tree(model.path());
        child::transaction(&child::open(model.path()).unwrap()).unwrap();
        let after = tree(model.path());
        assert_ne!(before, after);

        let (mut undone, mut kept) = (0, 0);
        loop {
            let base = place();
            let killed = killed_at("transaction", base.path(), undone + kept);
            child::open(base.path()).unwrap();
            let found = tree(base.path());
            if found == before && killed && kept == 0 {
                undone += 1;
            } else {
                assert_eq!(found, after, "killed at call {}", undone + kept);
                kept += 1;
            }
            if !killed {
                break;
            }
        }
        println!(
            "a transaction killed at each of {} calls: {undone} times undone, {kept} kept",
            undone + kept
        );
        assert!(undone > 100 && kept > 2, "{undone} undone, {kept} kept");

        // The most that can be left to undo, and the undoing killed at each of its calls.
        let mut calls = 0;
        loop {
            let base = place();
            assert!(killed_at("transaction", base.path(), undone - 1));
            let killed = killed_at("recovery", base.path(), calls);
            child::open(base.path()).unwrap();
            assert_eq!(tree(base.path()), before, "undoing killed at call {calls}");
            if !killed {
                break;
            }
            calls += 1;
        }
        println!("its undoing killed at each of {calls} calls: all is as before");
        assert!(calls > 50, "{calls}");
    }

    pub fn single_changes_are_all_or_nothing() {
        let model = place();
        let folder = child::open(model.path()).unwrap();
        let mut states = vec![tree(model.path())];
        for step in child::STEPS {
            step(&folder).unwrap();
            states.push(tree(model.path()));
        }
        let (mut calls, mut state) = (0, 0);
        loop {
            let base = place();
            let killed = killed_at("singly", base.path(), calls);
            child::open(base.path()).unwrap();
            let found = tree(base.path());
            // A later kill never finds an earlier state.
            let at = states[state..].iter().position(|one| *one == found);
            state += at.unwrap_or_else(|| panic!("killed at call {calls}: between two states: {found:?}"));
            if !killed {
                break;
            }
            calls += 1;
        }
        assert_eq!(state, states.len() - 1);
        println!(
            "{} single changes killed at each of {calls} calls: none was half done",
            child::STEPS.len()
        );
        assert!(calls > 50, "{calls}");
    }
}
