//! The launcher and Chat against hostile names: apps, plugins, broken manifests, models, connections, errors, activity
//! and Markdown full of markup and script. All of it is shown as text, nothing runs, nothing is asked for elsewhere.
//! And against an app page that floods the shell.

#[path = "browser/kit.rs"]
mod kit;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

/// Markup that calls out when it is taken as markup, and leaves a mark when its script runs. Short enough not to be cut
/// where names are shown.
fn hostile(what: &str, canary: &str) -> String {
    let host = canary.trim_start_matches("http:");
    format!("<img src={host}/hear-{what} onerror=__pwned=1>")
}

fn app(folder: &Path, id: &str, manifest: &Value, files: &[(&str, &str)]) {
    let app = folder.join(id);
    fs::create_dir_all(app.join("plugins/evil")).unwrap();
    fs::write(app.join("manifest.json"), manifest.to_string()).unwrap();
    for (name, text) in files {
        fs::write(app.join(name), text).unwrap();
    }
}

#[test]
fn hostile_names_are_text() {
    let folder = kit::fresh("browser-names");
    let home = folder.join("home");
    let server = Server::start();
    let canary = server.url.clone();
    let served = kit::serve(&home);
    let mark = |what: &str| hostile(what, &canary);
    let plugin = json!({
        "name": mark("plugin"), "version": "1.0.0", "description": mark("plugin-description"),
        "permissions": ["llm", "store"], "reasons": {"llm": mark("reason"), "store": "<script>__pwned=1</script>"},
    });
    app(
        &folder,
        "evil",
        &json!({
            "name": mark("name"), "version": mark("version"), "kind": "web",
            "description": mark("description"), "author": mark("author"),
        }),
        &[
            ("index.html", "<!doctype html><title>evil</title>"),
            ("plugins/evil/manifest.json", &plugin.to_string()),
            ("plugins/evil/plugin.js", "exports.handleRoute = () => ({});"),
        ],
    );
    kit::run(
        &home,
        &[
            "app",
            "add",
            folder.join("evil").to_str().unwrap(),
            "--id",
            "evil",
            "--yes",
        ],
    );
    // Folders that someone put into the workspace by hand.
    let accounts = fs::read_dir(home.join("accounts")).unwrap().next().unwrap().unwrap();
    let apps = accounts.path().join("workspace/apps");
    app(
        &apps,
        "broken",
        &json!({"name": mark("broken"), "version": "1", "kind": mark("kind")}),
        &[],
    );
    fs::create_dir_all(apps.join("torn")).unwrap();
    fs::write(apps.join("torn/manifest.json"), format!("{{\"name\": {}", mark("torn"))).unwrap();
    let result = kit::node(
        "names.mjs",
        &json!({
            "url": served.url, "setup": served.setup, "pictures": folder, "model": server.url,
            "marks": {
                "name": mark("name"), "description": mark("description"), "author": mark("author"),
                "plugin": mark("plugin"), "kind": mark("kind"), "model": mark("model"), "connection": mark("conn"),
                "failure": mark("failure"), "answer": mark("answer"), "ended": mark("ended"),
            },
        }),
    );
    assert_eq!(result["problems"], json!([]));
    assert_eq!(
        *server.heard.lock().unwrap(),
        Vec::<String>::new(),
        "something was loaded"
    );
}

#[test]
fn a_flood_stops_the_page_and_not_the_launcher() {
    let folder = kit::fresh("browser-flood");
    let home = folder.join("home");
    let served = kit::serve(&home);
    let script = fs::read_to_string(kit::tests("hostile/flood.js")).unwrap();
    let ways = ["window", "port", "fetch", "loop"];
    for way in ways {
        app(
            &folder,
            way,
            &json!({"name": format!("Flood by {way}"), "version": "1.0.0", "kind": "web"}),
            &[
                (
                    "index.html",
                    "<!doctype html><title>flood</title><script src=\"flood.js\"></script>",
                ),
                ("flood.js", &format!("const WAY = \"{way}\";\n{script}")),
            ],
        );
        fs::remove_dir_all(folder.join(way).join("plugins")).unwrap();
        kit::run(
            &home,
            &["app", "add", folder.join(way).to_str().unwrap(), "--id", way, "--yes"],
        );
    }
    let result = kit::node(
        "flood.mjs",
        &json!({"url": served.url, "setup": served.setup, "pictures": folder, "ways": ways}),
    );
    println!("flood: {result}");
    for way in ways {
        // A page that only computes sends nothing and is no flood; its process is its own.
        assert_eq!(result[way]["stopped"], json!(way != "loop"), "{way}: {result}");
        let grown = result[way]["grownMiB"].as_f64().unwrap();
        // Far above what was measured, far below what a flood without a limit takes in the same time.
        assert!(grown < 128.0, "{way}: the launcher grew by {grown} MiB");
    }
}

/// A model server whose every word is hostile. `/models-fail/v1/models` fails with a hostile message.
struct Server {
    url: String,
    /// Requests that only markup taken as markup would make.
    heard: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let (own, shared) = (url.clone(), heard.clone());
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (own, shared) = (own.clone(), shared.clone());
                thread::spawn(move || drop(answer(stream, &own, &shared)));
            }
        });
        Server { url, heard }
    }
}

fn answer(stream: TcpStream, own: &str, heard: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut out = stream;
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? <= 2 {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let mark = |what: &str| hostile(what, own);
    let path = first.split(' ').nth(1).unwrap_or_default();
    let (status, kind, text) = match path {
        "/v1/models" => (
            "200 OK",
            "application/json",
            json!({"data": [{"id": mark("model")}, {"id": "plain"}]}).to_string(),
        ),
        "/v1/chat/completions" => {
            let asked = String::from_utf8_lossy(&body).into_owned();
            (
                "200 OK",
                "text/event-stream",
                if asked.contains("fail") {
                    failing(&mark("ended"))
                } else {
                    markdown(own)
                },
            )
        }
        path if path.starts_with("/fails/") => {
            let message = json!({"error": {"message": mark("failure"), "type": "<script>__pwned=1</script>"}});
            ("500 Internal Server Error", "application/json", message.to_string())
        }
        path => {
            heard.lock().unwrap().push(path.to_owned());
            ("404 Not Found", "text/plain", String::new())
        }
    };
    write!(
        out,
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n{text}"
    )
}

fn piece(text: &str) -> String {
    format!(
        "data: {}\n\n",
        json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]})
    )
}

/// An answer in which Markdown and HTML try everything that loads or runs.
fn markdown(own: &str) -> String {
    let bad = |what: &str| format!("{own}/hear-md-{what}");
    let parts = [
        format!("{}\n\n", hostile("answer", own)),
        format!("![picture]({}) ![ref][r]\n\n[r]: {}\n\n", bad("image"), bad("reference")),
        "<script>__pwned=1</script><iframe srcdoc=\"<script>parent.__pwned=1</script>\"></iframe>\n\n".to_owned(),
        format!("<svg onload=__pwned=1><image href=\"{}\"/></svg>\n\n", bad("svg")),
        format!("<style>body{{background:url({})}}</style><link rel=stylesheet href={}>\n\n", bad("style"), bad("link")),
        format!("<meta http-equiv=refresh content=\"0;url={}\"><base href={}>\n\n", bad("refresh"), bad("base")),
        format!("<video poster={} autoplay src={}></video><form action={}><button>x</button></form>\n\n", bad("poster"), bad("video"), bad("form")),
        "[run](javascript:__pwned=1) <a href=\"javascript:__pwned=1\">run</a> [data](data:text/html,<script>1</script>)\n\n".to_owned(),
        "`<img src=x onerror=__pwned=1>`\n\n```html\"><script>__pwned=1</script>\n<img src=x onerror=__pwned=1>\n```\n\n".to_owned(),
        "<math><mtext><table><mglyph><style><img src=x onerror=__pwned=1></style></mglyph></table></mtext></math>\n\n".to_owned(),
        "the end".to_owned(),
    ];
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    format!(
        "{}data: {end}\n\ndata: [DONE]\n\n",
        parts.iter().map(|part| piece(part)).collect::<String>()
    )
}

/// An answer that breaks off with an error inside the stream.
fn failing(message: &str) -> String {
    format!(
        "{}data: {}\n\n",
        piece("begun "),
        json!({"error": {"message": message, "code": "<b>bad</b>"}})
    )
}
