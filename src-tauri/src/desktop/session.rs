//! One load of a page: its secret, its requests, its sockets. A reload ends the deliveries of the load before it and
//! nothing else; the engine's work goes on.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::Body;
use http::Request;
use tokio::sync::{Semaphore, mpsc};

use super::bridge::{FLUSH_LIMIT, Inbound, Question, Shared};
use super::delivery::{self, Flow};
use super::download;
use super::message::{self, Envelope, Fetch, FromPage, MAX_BODY, MAX_URL, StorageWriteName, Target, ToPage};
use super::outbox::Outbox;

/// Requests of one window that the engine works on at once, finished deliveries excluded.
const CALLS_AT_ONCE: usize = 64;
/// Bytes of request bodies and downloads held for one window while they are incomplete or unanswered.
const HELD: usize = 96 * 1024 * 1024;
/// Questions of one page load that may be declined before it is not asked about any more.
const DECLINED_LIMIT: usize = 3;

/// One page load.
pub struct Load {
    secret: String,
    pub outbox: Arc<Outbox>,
    flows: Mutex<HashMap<u64, Flow>>,
    declined: AtomicUsize,
}

impl Load {
    fn end(&self) {
        self.outbox.close();
        if let Ok(mut flows) = self.flows.lock() {
            for (_, flow) in flows.drain() {
                flow.stop();
            }
        }
    }

    /// Registers an answer under the page's number for it; `None` when that number is in use.
    fn open(&self, id: u64) -> Option<Flow> {
        let mut flows = self.flows.lock().ok()?;
        if flows.contains_key(&id) {
            return None;
        }
        let flow = Flow::new();
        flows.insert(id, flow.clone());
        Some(flow)
    }

    fn flow(&self, id: u64) -> Option<Flow> {
        self.flows.lock().ok()?.get(&id).cloned()
    }

    pub fn close(&self, id: u64) {
        if let Ok(mut flows) = self.flows.lock() {
            flows.remove(&id);
        }
    }
}

struct Upload {
    fetch: Fetch,
    body: Vec<u8>,
}

struct Download {
    name: String,
    data: Vec<u8>,
}

/// Takes the messages of one window, in order.
pub struct Reader {
    shared: Arc<Shared>,
    load: Option<Arc<Load>>,
    uploads: HashMap<u64, Upload>,
    downloads: HashMap<u64, Download>,
    held: Arc<AtomicUsize>,
    calls: Arc<Semaphore>,
    asking: Arc<Semaphore>,
}

impl Reader {
    pub fn new(shared: Arc<Shared>) -> Reader {
        Reader {
            shared,
            load: None,
            uploads: HashMap::new(),
            downloads: HashMap::new(),
            held: Arc::default(),
            calls: Arc::new(Semaphore::new(CALLS_AT_ONCE)),
            asking: Arc::new(Semaphore::new(1)),
        }
    }

    pub async fn run(mut self, mut inbox: mpsc::Receiver<Inbound>) {
        while let Some(inbound) = inbox.recv().await {
            match inbound {
                Inbound::Message(text) => {
                    let taken = text.len();
                    self.message(text);
                    self.shared.taken(taken);
                }
                Inbound::Load(answer) => {
                    let secret = self.load_anew().await;
                    let _ = answer.send(secret);
                }
            }
        }
        if let Some(load) = self.load.take() {
            load.end();
        }
    }

    /// A new load with a new secret. The old one is dead from here on.
    async fn load_anew(&mut self) -> String {
        if let Some(load) = self.load.take() {
            load.end();
        }
        self.uploads.clear();
        self.downloads.clear();
        self.held = Arc::default();
        // The script about to be served carries the stored values, so they have to be there.
        if tokio::time::timeout(FLUSH_LIMIT, self.shared.storage.flush())
            .await
            .is_err()
        {
            tracing::warn!(app = %self.shared.app, "stored values are late; the page loads without the last of them");
        }
        let secret = policy::random_hex(16);
        self.load = Some(Arc::new(Load {
            outbox: Outbox::start(self.shared.page.clone(), secret.clone()),
            secret: secret.clone(),
            flows: Mutex::default(),
            declined: AtomicUsize::new(0),
        }));
        secret
    }

    /// A piece that was dropped must not leave a hole in a file or a request.
    fn forget_pieces(&mut self) {
        let Some(load) = self.load.clone() else { return };
        let message = "parts were lost because the page sent too much at once";
        let uploads: Vec<u64> = self.uploads.keys().copied().collect();
        for id in uploads {
            self.drop_upload(id);
            self.fail(&load, id, message);
        }
        for (id, download) in std::mem::take(&mut self.downloads) {
            self.held.fetch_sub(download.data.len(), Ordering::Relaxed);
            let message = message.into();
            self.tell(&load, ToPage::DownloadRefused { id, message });
        }
    }

    fn message(&mut self, text: String) {
        if self.shared.lost_some() {
            self.forget_pieces();
        }
        let Envelope { s, message } = match message::read(&text) {
            Ok(envelope) => envelope,
            Err(why) => return self.shared.bad(why),
        };
        let Some(load) = self.load.clone().filter(|load| load.secret == s) else {
            return tracing::debug!(app = %self.shared.app, "message of another page load dropped");
        };
        match message {
            FromPage::Hello => {}
            FromPage::Fetch(fetch) => self.fetch(&load, fetch),
            FromPage::Body { id, data, last } => self.body(&load, id, &data, last),
            FromPage::Abort { id } => {
                self.drop_upload(id);
                if let Some(flow) = load.flow(id) {
                    flow.stop();
                }
            }
            FromPage::Ack { id, n } => {
                if let Some(flow) = load.flow(id) {
                    flow.credit(n);
                }
            }
            FromPage::Seen { n } => load.outbox.seen(n),
            FromPage::Ws { id, url } => self.socket(&load, id, &url),
            FromPage::WsClose { id } => {
                if let Some(flow) = load.flow(id) {
                    flow.stop();
                }
            }
            FromPage::Storage(write) => {
                let name = StorageWriteName {
                    which: write.which,
                    op: write.op,
                    key: write.key.clone(),
                };
                if let Err(why) = self.shared.storage.write(write, &load.outbox) {
                    let message = why.to_owned();
                    self.tell(&load, ToPage::StorageError { write: name, message });
                }
            }
            FromPage::Download { id, name, size } => {
                if size > download::MAX_DOWNLOAD as u64 {
                    let message = "files of more than 64 MiB cannot be saved from a page".into();
                    self.tell(&load, ToPage::DownloadRefused { id, message });
                } else if self.downloads.len() < 16 && !self.downloads.contains_key(&id) {
                    let name = download::safe_name(&name);
                    self.downloads.insert(id, Download { name, data: Vec::new() });
                } else {
                    self.shared.bad("download refused");
                }
            }
            FromPage::Data { id, data, last } => self.data(&load, id, &data, last),
            FromPage::Link { url } => self.link(&load, &url),
        }
    }

    /// Tells the page something without making the reader wait for the page.
    fn tell(&self, load: &Arc<Load>, message: ToPage) {
        let outbox = load.outbox.clone();
        tokio::spawn(async move { outbox.push(message).await });
    }

    fn fail(&self, load: &Arc<Load>, id: u64, message: impl Into<String>) {
        let message = message.into();
        self.tell(load, ToPage::Error { id, message });
    }

    fn hold(&self, bytes: usize) -> bool {
        if self.held.fetch_add(bytes, Ordering::Relaxed) + bytes > HELD {
            self.held.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        true
    }

    fn fetch(&mut self, load: &Arc<Load>, mut fetch: Fetch) {
        let body = match (fetch.body.take(), fetch.b64) {
            (None, _) => Vec::new(),
            (Some(text), false) => text.into_bytes(),
            (Some(data), true) => match message::bytes(&data) {
                Ok(bytes) => bytes,
                Err(why) => return self.shared.bad(why),
            },
        };
        if !fetch.more {
            return self.start(load, fetch, body);
        }
        if self.uploads.len() >= 16 || self.uploads.contains_key(&fetch.id) {
            return self.fail(load, fetch.id, "too many uploads at once (16)");
        }
        if !self.hold(body.len()) {
            return self.fail(load, fetch.id, "too much is being sent at once");
        }
        self.uploads.insert(fetch.id, Upload { fetch, body });
    }

    fn body(&mut self, load: &Arc<Load>, id: u64, data: &str, last: bool) {
        let Ok(bytes) = message::bytes(data) else {
            return self.shared.bad("not Base64");
        };
        // Pieces of a refused or aborted upload are still under way for a while; they are ignored.
        let Some(length) = self.uploads.get(&id).map(|upload| upload.body.len() + bytes.len()) else {
            return;
        };
        if length > MAX_BODY {
            self.drop_upload(id);
            return self.fail(load, id, "the request body is larger than 32 MiB");
        }
        if !self.hold(bytes.len()) {
            self.drop_upload(id);
            return self.fail(load, id, "too much is being sent at once");
        }
        if let Some(upload) = self.uploads.get_mut(&id) {
            upload.body.extend_from_slice(&bytes);
        }
        if last && let Some(upload) = self.drop_upload(id) {
            self.start(load, upload.fetch, upload.body);
        }
    }

    fn drop_upload(&mut self, id: u64) -> Option<Upload> {
        let upload = self.uploads.remove(&id)?;
        self.held.fetch_sub(upload.body.len(), Ordering::Relaxed);
        Some(upload)
    }

    fn start(&self, load: &Arc<Load>, fetch: Fetch, body: Vec<u8>) {
        let id = fetch.id;
        let (target, request) = match message::request(&fetch, body) {
            Ok(request) => request,
            Err(why) => return self.fail(load, id, why),
        };
        let Ok(permit) = self.calls.clone().try_acquire_owned() else {
            return self.fail(load, id, format!("too many requests at once ({CALLS_AT_ONCE})"));
        };
        let Some(flow) = load.open(id) else {
            return self.shared.bad("request number used twice");
        };
        let (shared, load) = (self.shared.clone(), load.clone());
        tokio::spawn(async move {
            let method = request.method().clone();
            let answer = match target {
                Target::Engine => shared.call(request.map(Body::from)).await,
                Target::File => {
                    let request = request.map(|_| ());
                    shared.door.page(shared.app.clone(), String::new(), request).await
                }
            };
            delivery::deliver(&load.outbox, id, &flow, method, answer).await;
            load.close(id);
            drop(permit);
        });
    }

    fn socket(&self, load: &Arc<Load>, id: u64, url: &str) {
        let path = url.split(['?', '#']).next().unwrap_or_default();
        let refused = if path != "/v1/ws" {
            Some("pages can only open a WebSocket to /v1/ws")
        } else {
            None
        };
        let permit = self.calls.clone().try_acquire_owned();
        let (None, Ok(permit)) = (refused, permit) else {
            let data = Some(refused.unwrap_or("too many requests at once").to_owned());
            let event = "error";
            return self.tell(load, ToPage::Ws { id, event, data });
        };
        let Some(flow) = load.open(id) else {
            return self.shared.bad("socket number used twice");
        };
        let (shared, load) = (self.shared.clone(), load.clone());
        tokio::spawn(async move {
            let request = Request::builder().uri("/v1/events").body(Body::empty());
            if let Ok(request) = request {
                let answer = shared.call(request).await;
                delivery::events(&load.outbox, id, &flow, answer).await;
            }
            load.close(id);
            drop(permit);
        });
    }

    fn data(&mut self, load: &Arc<Load>, id: u64, data: &str, last: bool) {
        let Ok(bytes) = message::bytes(data) else {
            return self.shared.bad("not Base64");
        };
        let Some(length) = self
            .downloads
            .get(&id)
            .map(|download| download.data.len() + bytes.len())
        else {
            return;
        };
        if length > download::MAX_DOWNLOAD || !self.hold(bytes.len()) {
            if let Some(download) = self.downloads.remove(&id) {
                self.held.fetch_sub(download.data.len(), Ordering::Relaxed);
            }
            let message = "files of more than 64 MiB cannot be saved from a page".into();
            return self.tell(load, ToPage::DownloadRefused { id, message });
        }
        if let Some(download) = self.downloads.get_mut(&id) {
            download.data.extend_from_slice(&bytes);
        }
        if last && let Some(download) = self.downloads.remove(&id) {
            self.ask_to_save(load, id, download);
        }
    }

    fn ask_to_save(&self, load: &Arc<Load>, id: u64, download: Download) {
        let (shared, load) = (self.shared.clone(), load.clone());
        let (asking, held) = (self.asking.clone(), self.held.clone());
        tokio::spawn(async move {
            let Download { name, data } = download;
            let length = data.len();
            let question = Question {
                text: format!(
                    "Save \u{201c}{name}\u{201d} ({}) in your Downloads folder?",
                    download::size(length)
                ),
                yes: "Save",
                no: "Don\u{2019}t save",
            };
            let answer = if ask(&shared, &load, &asking, question).await {
                let saved = tokio::task::spawn_blocking(move || {
                    let folder = download::folder()?;
                    download::save(&folder, &name, &data)
                        .map_err(|error| format!("could not save in {}: {error}", folder.display()))
                });
                match saved.await {
                    // The page learns the name it was saved under, not where the person's folders are.
                    Ok(Ok(path)) => {
                        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                        ToPage::DownloadDone { id, message: name }
                    }
                    Ok(Err(why)) => {
                        tracing::warn!(app = %shared.app, why, "download not saved");
                        let message = "the file could not be saved".into();
                        ToPage::DownloadRefused { id, message }
                    }
                    Err(error) => ToPage::DownloadRefused {
                        id,
                        message: error.to_string(),
                    },
                }
            } else {
                let message = "the file was not saved: the person said no".into();
                ToPage::DownloadRefused { id, message }
            };
            held.fetch_sub(length, Ordering::Relaxed);
            load.outbox.push(answer).await;
        });
    }

    fn link(&self, load: &Arc<Load>, url: &str) {
        let Some(url) = web_address(url) else {
            return self.shared.bad("not a web address");
        };
        let (shared, load, asking) = (self.shared.clone(), load.clone(), self.asking.clone());
        tokio::spawn(async move {
            let question = Question {
                text: format!("Open {} in your browser?", shown(&url)),
                yes: "Open",
                no: "Don\u{2019}t open",
            };
            if ask(&shared, &load, &asking, question).await {
                shared.page.open_link(url.into());
            }
        });
    }
}

/// Asks, one question of a window at a time; a page that was declined a few times is not listened to any more.
async fn ask(shared: &Shared, load: &Load, asking: &Semaphore, question: Question) -> bool {
    let Ok(_turn) = asking.try_acquire() else {
        return false;
    };
    if load.declined.load(Ordering::Relaxed) >= DECLINED_LIMIT {
        return false;
    }
    let yes = tokio::select! {
        biased;
        // Whoever asked is gone: the question goes too, and an answer that comes all the same counts for nothing.
        () = load.outbox.closed() => return false,
        answer = shared.page.ask(question) => answer.unwrap_or(false),
    };
    if !yes {
        load.declined.fetch_add(1, Ordering::Relaxed);
    }
    yes
}

/// An address that may be offered to the person's browser: http or https, with a host, without a name and password,
/// which would make a foreign host look like a known one.
fn web_address(text: &str) -> Option<url::Url> {
    if text.len() > MAX_URL {
        return None;
    }
    let url = url::Url::parse(text).ok()?;
    let fits = matches!(url.scheme(), "http" | "https")
        && url.host_str().is_some_and(|host| !host.is_empty())
        && url.username().is_empty()
        && url.password().is_none();
    fits.then_some(url)
}

/// The address as the question shows it: the host whole and in ASCII, so that look-alike letters show; the rest cut.
fn shown(url: &url::Url) -> String {
    let text = url.as_str();
    let keep = text.char_indices().nth(160).map_or(text.len(), |(at, _)| at);
    let host = url.as_str().find(url.host_str().unwrap_or_default()).unwrap_or(0) + url.host_str().map_or(0, str::len);
    let keep = keep.max(host);
    if keep < text.len() {
        format!("{}\u{2026}", &text[..keep])
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_web_addresses_are_offered() {
        for bad in [
            "javascript:alert(1)",
            "file:///etc/passwd",
            "https://",
            "https://bank.example@evil.example/",
            "https://user:pw@evil.example/",
            "mailto:a@b",
            "chrysalis-app://chat/",
            "//evil.example",
            "",
        ] {
            assert!(web_address(bad).is_none(), "{bad}");
        }
        let url = web_address("https://b\u{fc}cher.example/a b").unwrap();
        assert_eq!(shown(&url), "https://xn--bcher-kva.example/a%20b");
        let long = web_address(&format!("https://example.org/{}", "a".repeat(500))).unwrap();
        assert_eq!(shown(&long).chars().count(), 161);
    }
}
