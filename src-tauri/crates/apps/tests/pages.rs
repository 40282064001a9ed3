//! What a page is given and what it is not, over real files, with real links, pipes and races.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use apps::pages::{PageBody, PagePolicy, reply, serve};
use files::Folder;
use futures::StreamExt;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use policy::AppId;
use tempfile::TempDir;

const BRIDGE: &str = "/frame/abc/__chrysalis/bridge.js";
const SECRET: &str = "SECRET";

struct App {
    base: TempDir,
}

struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl App {
    /// An app folder beside a secret.
    fn new(files: &[(&str, &str)]) -> Self {
        let app = Self {
            base: TempDir::new().unwrap(),
        };
        fs::write(app.base.path().join("secret"), SECRET).unwrap();
        fs::create_dir(app.base.path().join("app")).unwrap();
        for (path, text) in files {
            app.write(path, text);
        }
        app
    }

    fn at(&self, path: &str) -> std::path::PathBuf {
        self.base.path().join("app").join(path)
    }

    fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn ask(&self, method: Method, path: &str, headers: &[(&str, &str)]) -> Answer {
        let root = Folder::open_ambient(&self.at("")).unwrap();
        let id = AppId::parse("chat").unwrap();
        let policy = PagePolicy::frame("http://127.0.0.1:1", "abc");
        let headers = headers.iter().map(|(name, value)| {
            let name = HeaderName::try_from(*name).unwrap();
            (name, HeaderValue::from_str(value).unwrap())
        });
        let response = serve(&root, &id, &method, path, &headers.collect(), &policy, BRIDGE);
        let (parts, body) = response.into_parts();
        let answer = Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: collect(body),
        };
        has_every_policy_header(&answer, path);
        answer
    }

    fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, &[])
    }
}

fn collect(body: PageBody) -> Vec<u8> {
    try_collect(body).unwrap()
}

fn try_collect(body: PageBody) -> std::io::Result<Vec<u8>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut stream = Box::pin(body.into_stream());
        let mut bytes = Vec::new();
        while let Some(piece) = stream.next().await {
            bytes.extend_from_slice(&piece?);
        }
        Ok(bytes)
    })
}

/// Every single answer in this file passes through here, errors of all kinds included.
fn has_every_policy_header(answer: &Answer, path: &str) {
    let content = answer.header("content-security-policy");
    for part in [
        "default-src 'none';",
        "script-src http://127.0.0.1:1/frame/abc/ 'wasm-unsafe-eval';",
        "connect-src 'none';",
        "form-action 'none';",
        "frame-src 'none';",
        "worker-src 'none';",
        "frame-ancestors http://127.0.0.1:1;",
        "webrtc 'block';",
        "sandbox allow-scripts allow-forms",
    ] {
        assert!(content.contains(part), "{path}: the policy lacks {part}: {content}");
    }
    for (name, want) in [
        ("connection-allowlist", "(response-origin)"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "cross-origin"),
        ("access-control-allow-origin", "*"),
        ("x-dns-prefetch-control", "off"),
        ("cache-control", "no-cache"),
    ] {
        assert_eq!(answer.header(name), want, "{path}: {name}");
    }
    assert!(answer.header("permissions-policy").contains("camera=()"), "{path}");
    assert!(answer.headers.get("set-cookie").is_none(), "{path}");
}

#[test]
fn files_come_from_the_root_without_what_no_page_needs() {
    let app = App::new(&[
        ("index.html", "<!doctype html><p>hi"),
        ("app.js", "1"),
        ("assets/logo.svg", "<svg/>"),
        ("assets/data/x.json", "{}"),
        ("sub/index.html", "sub"),
        ("..foo.txt", "dots"),
        ("a b.txt", "space"),
        ("100%.txt", "percent"),
        ("manifest.webmanifest", "{}"),
        ("data/x.json", SECRET),
        ("plugins/chat/plugin.js", SECRET),
        ("node_modules/x/index.js", SECRET),
        ("assets/node_modules/x.js", SECRET),
        ("manifest.json", SECRET),
        ("package.json", "{}"),
        ("package-lock.json", SECRET),
        ("tsconfig.json", SECRET),
        ("tsconfig.app.json", SECRET),
        (".env", SECRET),
        (".git/config", SECRET),
        ("assets/.hidden", SECRET),
        ("__chrysalis/bridge.js", SECRET),
        // Names that another system takes for guarded ones; here they are files of their own, so each can be asked for.
        ("DATA/x.json", SECRET),
        ("PLUGIN~1/chat/plugin.js", SECRET),
        ("plugin\u{17f}/chat/plugin.js", SECRET),
        ("Manifest.JSON", SECRET),
        ("\u{200c}.env", SECRET),
        ("__CHRYSALIS/bridge.js", SECRET),
    ]);
    for (path, want) in [
        ("/", 200),
        ("/index.html", 200),
        ("/app.js", 200),
        ("/%61pp.js", 200),
        ("/assets/logo.svg", 200),
        ("/assets/data/x.json", 200),
        ("/sub/", 200),
        ("/a%20b.txt", 200),
        ("/100%25.txt", 200),
        ("/manifest.webmanifest", 200),
        ("/sub", 404),
        ("/none.js", 404),
        ("/none/", 404),
        ("/..foo.txt", 404),
        ("/data/x.json", 404),
        ("/DATA/x.json", 404),
        ("/d%61ta/x.json", 404),
        ("/plugins/chat/plugin.js", 404),
        ("/PLUGIN~1/chat/plugin.js", 404),
        ("/plugin%C5%BF/chat/plugin.js", 404),
        ("/node_modules/x/index.js", 404),
        ("/assets/node_modules/x.js", 404),
        ("/manifest.json", 404),
        ("/Manifest.JSON", 404),
        ("/package.json", 404),
        ("/package-lock.json", 404),
        ("/tsconfig.json", 404),
        ("/tsconfig.app.json", 404),
        ("/.env", 404),
        ("/%2eenv", 404),
        ("/.git/config", 404),
        ("/assets/.hidden", 404),
        ("/assets/%2ehidden", 404),
        ("/%E2%80%8C.env", 404),
        ("/__chrysalis/bridge.js", 404),
        ("/__CHRYSALIS/bridge.js", 404),
    ] {
        let answer = app.get(path);
        assert_eq!(answer.status, want, "{path}");
        assert!(!answer.text().contains(SECRET), "{path}");
    }
}

#[test]
fn nothing_outside_is_reached_by_any_spelling() {
    // Names that only this system allows are there for real, so that it is not their absence that is seen.
    let app = App::new(&[
        ("index.html", "x"),
        ("a.js", "1"),
        ("sub/b.js", "2"),
        ("%2e%2e/secret", SECRET),
        ("..%2fsecret", SECRET),
        ("..\\secret", SECRET),
        ("sub\\b.js", SECRET),
        ("a.js ", SECRET),
        ("a.js.", SECRET),
        ("a.js\n", SECRET),
        ("a.js::$DATA", SECRET),
        ("c:secret", SECRET),
        ("CON", SECRET),
        ("nul.js", SECRET),
        ("COM\u{b9}", SECRET),
        ("\u{ff0e}\u{ff0e}/index.html", "x"),
    ]);
    for path in [
        "/../secret",
        "/sub/../../secret",
        "/./a.js",
        "/sub/./b.js",
        "/sub/../a.js",
        "//a.js",
        "/sub//b.js",
        "/%2e%2e/secret",
        "/%2e%2e%2fsecret",
        "/..%2fsecret",
        "/..%5csecret",
        "/..\\secret",
        "/%252e%252e/secret",
        "/%252e%252e%252fsecret",
        "/..%252fsecret",
        "/%c0%ae%c0%ae/secret",
        "/%ef%bc%8e%ef%bc%8e/secret",
        "/sub%2fb.js",
        "/sub%5cb.js",
        "/a.js%00",
        "/a.js%00.png",
        "/a.js%0a",
        "/a.js%20",
        "/a.js.",
        "/a.js::$DATA",
        "/a.js%3a%3a$DATA",
        "/C:/secret",
        "/c%3asecret",
        "/CON",
        "/nul.js",
        "/COM%C2%B9",
        "/%",
        "/%zz",
        "a.js",
        "",
        "/etc/passwd",
        "//etc/passwd",
        "/%2fetc/passwd",
    ] {
        let answer = app.get(path);
        assert_eq!(answer.status, 404, "{path}");
        assert_eq!(
            answer.text(),
            "there is no such file in this app\n",
            "{path}: every refusal looks alike"
        );
    }
    let long = format!("/{}", "a".repeat(100_000));
    assert_eq!(app.get(&long).status, 404);
    assert_eq!(app.get(&"/a".repeat(1000)).status, 404);
}

fn links_and_pipes(app: &App, at: &str) {
    symlink("../../secret", app.at(at).join("up")).unwrap();
    symlink(app.base.path(), app.at(at).join("base")).unwrap();
    symlink("ok.js", app.at(at).join("inner.js")).unwrap();
    fs::hard_link(app.base.path().join("secret"), app.at(at).join("hard.js")).unwrap();
    assert!(
        Command::new("mkfifo")
            .arg(app.at(at).join("pipe.js"))
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn links_and_pipes_are_not_served() {
    let started = Instant::now();
    for (at, files) in [
        ("", &[("index.html", "x"), ("ok.js", "1")]),
        ("dist", &[("dist/index.html", "x"), ("dist/ok.js", "1")]),
    ] {
        let app = App::new(files);
        links_and_pipes(&app, at);
        assert_eq!(app.get("/ok.js").status, 200);
        for path in ["/up", "/base/secret", "/inner.js", "/hard.js", "/pipe.js"] {
            let answer = app.get(path);
            assert_eq!(
                (answer.status, answer.text().contains(SECRET)),
                (404, false),
                "{at} {path}"
            );
        }
    }
    assert!(started.elapsed() < Duration::from_secs(10), "the pipe was waited for");
}

#[test]
fn dist_comes_first_only_as_a_real_folder() {
    let app = App::new(&[
        ("index.html", "from root"),
        ("dist/index.html", "from dist"),
        ("dist/data/x.json", "built"),
        ("dist/.chrysalis-build.json", SECRET),
        ("root.js", "root"),
    ]);
    assert!(app.get("/").text().ends_with("from dist"));
    assert_eq!(app.get("/data/x.json").text(), "built");
    assert_eq!(app.get("/root.js").status, 404);
    assert_eq!(app.get("/.chrysalis-build.json").status, 404);

    let linked = App::new(&[("index.html", "from root")]);
    fs::create_dir(linked.base.path().join("elsewhere")).unwrap();
    fs::write(linked.base.path().join("elsewhere/index.html"), SECRET).unwrap();
    symlink("../elsewhere", linked.at("dist")).unwrap();
    assert!(linked.get("/").text().ends_with("from root"));
    assert_eq!(linked.get("/dist/index.html").status, 404);
}

#[test]
fn a_missing_page_says_which_file_is_missing() {
    let check = |files: &[(&str, &str)], want: &str| {
        let answer = App::new(files).get("/");
        assert_eq!(answer.status, 404);
        assert_eq!(answer.header("content-type"), "text/html; charset=utf-8");
        let page = answer.text();
        assert!(page.contains(want), "{page}");
        assert!(!page.contains("<script"), "{page}");
    };
    check(&[("app.js", "")], "<p>index.html is not there");
    check(
        &[("dist/app.js", ""), ("index.html", "")],
        "dist/index.html is not there, although",
    );
    let package = ("package.json", r#"{"scripts":{"build":"vite build"}}"#);
    check(&[("index.html", ""), package], "must be built first");

    let linked = App::new(&[]);
    symlink("../secret", linked.at("index.html")).unwrap();
    let page = linked.get("/").text();
    assert!(
        page.contains("&quot;index.html&quot; is a symbolic link") && !page.contains(SECRET),
        "{page}"
    );
}

#[test]
fn the_bridge_is_in_every_html_page_and_nowhere_else() {
    let tag = format!("<script src=\"{BRIDGE}\"></script>");
    let app = App::new(&[
        ("index.html", "<!doctype html><html><head><script src=a.js></script>"),
        ("old.HTM", "<p>old"),
        ("a.js", "1"),
        ("a.svg", "<svg/>"),
    ]);
    let page = app.get("/");
    assert_eq!(
        page.text(),
        format!("<!doctype html>{tag}<html><head><script src=a.js></script>")
    );
    assert_eq!(page.header("content-length"), page.body.len().to_string());
    assert_eq!(app.get("/old.HTM").text(), format!("{tag}<p>old"));
    assert_eq!(app.get("/a.js").text(), "1");
    assert_eq!(app.get("/a.svg").text(), "<svg/>");
    app.write("big.html", vec![b'x'; 16 * 1024 * 1024 + 1]);
    assert_eq!(app.get("/big.html").status, 500);
}

#[test]
fn methods() {
    let app = App::new(&[("index.html", "x"), ("a.txt", "hello")]);
    let head = app.ask(Method::HEAD, "/a.txt", &[]);
    assert_eq!(
        (head.status, head.header("content-length"), head.body.len()),
        (200, "5", 0)
    );
    assert_eq!(head.headers, app.get("/a.txt").headers);
    let head = app.ask(Method::HEAD, "/none", &[]);
    assert_eq!((head.status, head.body.len()), (404, 0));
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "get"] {
        let answer = app.ask(Method::from_bytes(method.as_bytes()).unwrap(), "/a.txt", &[]);
        assert_eq!((answer.status, answer.header("allow")), (405, "GET, HEAD"), "{method}");
    }
}

#[test]
fn ranges_of_small_and_of_streamed_files() {
    // One below and one above the size up to which files are held in memory.
    for len in [200_000usize, 3_000_001] {
        let bytes: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
        let app = App::new(&[]);
        app.write("film.mp4", &bytes);
        let whole = app.get("/film.mp4");
        assert_eq!((whole.status, whole.header("content-type")), (200, "video/mp4"));
        assert!(whole.body == bytes);
        assert_eq!(whole.header("accept-ranges"), "bytes");
        let check = |range: &str, status: u16, from: usize, until: usize, content_range: &str| {
            let answer = app.ask(Method::GET, "/film.mp4", &[("range", range)]);
            assert_eq!(answer.status, status, "{range}");
            assert!(answer.body == bytes[from..until], "{range} of {len}");
            assert_eq!(answer.header("content-range"), content_range, "{range}");
            assert_eq!(answer.header("content-length"), (until - from).to_string(), "{range}");
        };
        let last = len - 1;
        check("bytes=0-0", 206, 0, 1, &format!("bytes 0-0/{len}"));
        check(
            "bytes=70000-140000",
            206,
            70_000,
            140_001,
            &format!("bytes 70000-140000/{len}"),
        );
        check(
            "bytes=150000-",
            206,
            150_000,
            len,
            &format!("bytes 150000-{last}/{len}"),
        );
        check(
            "bytes=-5",
            206,
            len - 5,
            len,
            &format!("bytes {}-{last}/{len}", len - 5),
        );
        check("bytes=5-999999999", 206, 5, len, &format!("bytes 5-{last}/{len}"));
        check(&format!("bytes={len}-"), 416, 0, 0, &format!("bytes */{len}"));
        check("bytes=0-1,5-6", 200, 0, len, "");
        check("bytes=9-1", 200, 0, len, "");
        let tag = whole.header("etag").to_owned();
        let known = app.ask(Method::GET, "/film.mp4", &[("if-none-match", &tag)]);
        assert_eq!(
            (known.status, known.body.len(), known.header("etag")),
            (304, 0, tag.as_str())
        );
        let part = app.ask(Method::GET, "/film.mp4", &[("if-range", &tag), ("range", "bytes=0-0")]);
        assert_eq!(part.status, 206);
        app.write("film.mp4", vec![0; len]);
        let changed = app.ask(Method::GET, "/film.mp4", &[("if-none-match", &tag)]);
        assert_eq!(changed.status, 200, "the file changed, its length did not");
        let part = app.ask(Method::GET, "/film.mp4", &[("if-range", &tag), ("range", "bytes=0-0")]);
        assert_eq!(part.status, 200);
    }
}

#[test]
fn a_file_cut_off_while_it_is_sent_is_an_error() {
    let app = App::new(&[]);
    app.write("film.mp4", vec![1; 3_000_000]);
    let root = Folder::open_ambient(&app.at("")).unwrap();
    let policy = PagePolicy::frame("http://127.0.0.1:1", "abc");
    let id = AppId::parse("chat").unwrap();
    let response = serve(
        &root,
        &id,
        &Method::GET,
        "/film.mp4",
        &HeaderMap::new(),
        &policy,
        BRIDGE,
    );
    fs::File::options()
        .write(true)
        .open(app.at("film.mp4"))
        .unwrap()
        .set_len(1_000_000)
        .unwrap();
    let error = try_collect(response.into_body()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
}

#[test]
fn the_engines_own_answers_carry_the_policy_too() {
    let policy = PagePolicy::frame("http://127.0.0.1:1", "abc");
    let response = reply(&policy, StatusCode::OK, "text/javascript; charset=utf-8", b"1".to_vec());
    let (parts, body) = response.into_parts();
    let answer = Answer {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body: collect(body),
    };
    has_every_policy_header(&answer, "bridge");
    assert_eq!((answer.header("content-length"), answer.text().as_str()), ("1", "1"));
}

#[test]
fn a_race_serves_nothing_outside() {
    let app = App::new(&[("index.html", "x"), ("real/secret", "PUBLIC")]);
    fs::create_dir(app.base.path().join("outside")).unwrap();
    fs::write(app.base.path().join("outside/secret"), SECRET).unwrap();
    symlink("../outside", app.at("evil")).unwrap();
    let stop = AtomicBool::new(false);
    let (mut served, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let swap = |from: &str, to: &str| {
                let _ = fs::rename(app.at(from), app.at(to));
            };
            while !stop.load(Ordering::Relaxed) {
                for name in ["real", "evil"] {
                    swap(name, "now");
                    swap("now", name);
                }
            }
        });
        let end = Instant::now() + Duration::from_secs(20);
        while Instant::now() < end && (served < 300 || refused < 300) {
            let answer = app.get("/now/secret");
            assert!(!answer.text().contains(SECRET), "the race led outside");
            match answer.status {
                200 => served += 1,
                404 => refused += 1,
                other => panic!("{other}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(
        served > 0 && refused > 0,
        "the race never happened: {served} served, {refused} refused"
    );
}

#[test]
fn the_launchers_files_are_nowhere_near() {
    // The folder of one app cannot name another's: there is no spelling of its parent.
    let app = App::new(&[("index.html", "x")]);
    fs::create_dir(app.base.path().join("other")).unwrap();
    fs::write(app.base.path().join("other/index.html"), SECRET).unwrap();
    for path in [
        "/../other/",
        "/%2e%2e/other/index.html",
        "/..%2fother%2findex.html",
        "/~/other/",
    ] {
        assert_eq!(app.get(path).status, 404, "{path}");
    }
    assert!(Path::new(&app.at("../other/index.html")).exists());
}
