//! `host.fs`: the app's data folder (contract section 3.4), with what the contract lacks. Everything here blocks on the
//! disk.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use files::{FileError, GuestFolder, Kind, Transaction, Upload, cost};
use parking_lot::Mutex;
use policy::Capability;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Who;
use crate::media::Picture;

/// Largest file that is read or written whole, in bytes (contract section 3.4).
const FILE_LIMIT: u64 = 64 << 20;
/// Largest chunk of a file.
const CHUNK_LIMIT: u64 = 8 << 20;
/// Files that one call may be writing piece by piece at a time.
const WRITERS: usize = 16;
/// Bytes of a looked-up record as JSON, and characters of its key.
const RECORD_LIMIT: usize = 4096;
const RECORD_KEY: usize = 4096;
/// How long a transaction may stay open: meanwhile nobody else writes in the folder.
const TRANSACTION: Duration = Duration::from_secs(60);

/// The files of one call.
pub struct Files {
    folder: GuestFolder,
    work: Arc<Mutex<Work>>,
}

#[derive(Default)]
struct Work {
    next: u64,
    transaction: Option<(u64, Transaction)>,
    /// What a transaction of this call came to, if not by its own commit or rollback.
    lapsed: bool,
    writers: HashMap<u64, (String, Upload)>,
}

impl Drop for Files {
    /// Undoes what was begun and not ended, not on the thread that everybody waits for.
    fn drop(&mut self) {
        let work = std::mem::take(&mut *self.work.lock());
        if work.transaction.is_none() && work.writers.is_empty() {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn_blocking(move || drop(work));
        }
    }
}

/// The arguments of one method, read with errors that name it.
struct Args<'a> {
    method: &'a str,
    list: &'a [Value],
}

impl<'a> Args<'a> {
    fn wrong(&self, what: impl std::fmt::Display) -> String {
        format!("host.{}: {what}", self.method)
    }

    fn text(&self, at: usize, what: &str) -> Result<&'a str, String> {
        let found = self.list.get(at).and_then(Value::as_str);
        found.ok_or_else(|| self.wrong(format_args!("{what} must be a string")))
    }

    fn path(&self) -> Result<&'a str, String> {
        self.text(0, "the path")
    }

    fn number(&self, at: usize, what: &str, most: u64) -> Result<u64, String> {
        let found = self
            .list
            .get(at)
            .and_then(Value::as_f64)
            .filter(|n| *n >= 0.0 && n.fract() == 0.0);
        match found {
            Some(number) if number <= most as f64 => Ok(number as u64),
            _ => Err(self.wrong(format_args!("{what} must be a whole number from 0 to {most}"))),
        }
    }

    fn id(&self) -> Result<u64, String> {
        self.list
            .first()
            .and_then(Value::as_u64)
            .ok_or_else(|| self.wrong("no such writer"))
    }

    fn small(&self, bytes: &[u8], most: u64) -> Result<(), String> {
        if bytes.len() as u64 > most {
            return Err(self.wrong(format_args!(
                "{} bytes at once are more than {} MiB: use host.fs.writer",
                bytes.len(),
                most >> 20
            )));
        }
        Ok(())
    }

    fn base64(&self, text: &str) -> Result<Vec<u8>, String> {
        let bytes = BASE64_STANDARD.decode(text);
        bytes.map_err(|e| self.wrong(format_args!("its base64 is damaged: {e}")))
    }

    /// `{text}` or `{base64}`.
    fn content(&self, at: usize) -> Result<Vec<u8>, String> {
        let given = self.list.get(at).unwrap_or(&Value::Null);
        match (given.get("text"), given.get("base64")) {
            (Some(Value::String(text)), _) => Ok(text.clone().into_bytes()),
            (_, Some(Value::String(base64))) => self.base64(base64),
            _ => Err(self.wrong("give a string or a Uint8Array")),
        }
    }
}

impl Files {
    pub fn new(folder: GuestFolder) -> Self {
        Self {
            folder,
            work: Arc::default(),
        }
    }

    /// Every method of `host.fs`.
    pub fn call(&self, who: &Arc<Who>, method: &str, list: &[Value]) -> Result<Value, String> {
        who.need(Capability::Fs, method)?;
        let args = Args { method, list };
        let said = |error: FileError| args.wrong(error);
        match method {
            "fs.read" => {
                let bytes = self.folder.read(args.path()?, FILE_LIMIT).map_err(said)?;
                Ok(String::from_utf8(bytes)
                    .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
                    .into())
            }
            "fs.readBase64" => {
                let bytes = self.folder.read(args.path()?, FILE_LIMIT).map_err(said)?;
                Ok(BASE64_STANDARD.encode(bytes).into())
            }
            "fs.readChunk" => {
                let offset = args.number(1, "the offset", 1 << 53)?;
                let length = args.number(2, "the length", CHUNK_LIMIT)?;
                let bytes = self
                    .folder
                    .read_at(args.path()?, offset, length as usize)
                    .map_err(said)?;
                Ok(BASE64_STANDARD.encode(bytes).into())
            }
            "fs.write" => self.write(who, &args, args.path()?, args.text(1, "the text")?.as_bytes()),
            "fs.writeBase64" => {
                let bytes = args.base64(args.text(1, "the bytes")?)?;
                self.write(who, &args, args.path()?, &bytes)
            }
            "fs.append" => {
                let (path, bytes) = (args.path()?, args.content(1)?);
                args.small(&bytes, FILE_LIMIT)?;
                self.change(
                    who,
                    &args,
                    cost(bytes.len() as u64),
                    |folder| folder.append(path, &bytes),
                    |transaction| transaction.append(path, &bytes),
                )
            }
            "fs.mkdir" => {
                let path = args.path()?;
                // A folder takes up one block for each of its names.
                let names = path.split('/').count() as u64;
                self.change(
                    who,
                    &args,
                    cost(0).saturating_mul(names),
                    |folder| folder.mkdir(path),
                    |transaction| transaction.mkdir(path),
                )
            }
            "fs.list" => {
                let path = if list.is_empty() { "." } else { args.path()? };
                let entries = self.folder.list(path).map_err(said)?;
                Ok(entries.into_iter().map(|entry| entry.name).collect())
            }
            "fs.remove" => {
                let path = args.path()?;
                self.change(
                    who,
                    &args,
                    0,
                    |folder| folder.remove(path),
                    |transaction| transaction.remove(path),
                )
            }
            "fs.rename" => {
                let (from, to) = (args.text(0, "the old path")?, args.text(1, "the new path")?);
                self.change(
                    who,
                    &args,
                    0,
                    |folder| folder.rename(from, to),
                    |transaction| transaction.rename(from, to),
                )
            }
            "fs.stat" => {
                let stat = self.folder.stat(args.path()?).map_err(said)?;
                let kind = if stat.kind == Kind::Folder { "folder" } else { "file" };
                Ok(json!({"kind": kind, "size": stat.size, "modified": stat.modified_ms}))
            }
            "fs.exists" => Ok(self.folder.exists(args.path()?).map_err(said)?.into()),
            "fs.lookup" => self.lookup(who, &args),
            "fs.media" => {
                let picture = Picture::of_data_uri(args.text(0, "the picture")?).map_err(|why| args.wrong(why))?;
                Ok(self.keep(who, method, &picture)?.into())
            }
            "fs.upload" => self.upload(&args),
            "fs.uploadWrite" => {
                let (id, bytes) = (args.id()?, args.content(1)?);
                args.small(&bytes, CHUNK_LIMIT)?;
                let (gate, limit) = who.disk_gate().map_err(|why| args.wrong(why))?;
                let _gate = gate.as_ref().map(|gate| gate.lock());
                self.room(who, &args, limit, cost(bytes.len() as u64), "")?;
                let mut work = self.work.lock();
                let (_, upload) = work.writers.get_mut(&id).ok_or_else(|| args.wrong("no such writer"))?;
                upload.write(&bytes).map_err(said)?;
                Ok(Value::Null)
            }
            "fs.uploadClose" => {
                let mut work = self.work.lock();
                let (_, upload) = work
                    .writers
                    .remove(&args.id()?)
                    .ok_or_else(|| args.wrong("no such writer"))?;
                self.alive(&mut work, &args)?;
                match &mut work.transaction {
                    Some((_, transaction)) => transaction.place(upload),
                    None => upload.commit(),
                }
                .map_err(said)?;
                Ok(Value::Null)
            }
            "fs.uploadAbort" => {
                self.work.lock().writers.remove(&args.id()?);
                Ok(Value::Null)
            }
            "fs.begin" => self.begin(&args),
            "fs.commit" | "fs.rollback" => {
                let mut work = self.work.lock();
                self.alive(&mut work, &args)?;
                let (_, transaction) = work
                    .transaction
                    .take()
                    .ok_or_else(|| args.wrong("no transaction is open"))?;
                drop(work);
                match method {
                    "fs.commit" => transaction.commit(),
                    _ => transaction.rollback(),
                }
                .map_err(said)?;
                Ok(Value::Null)
            }
            other => Err(format!("host.{other} does not exist")),
        }
    }

    /// Keeps a picture and gives its address for the app's pages.
    pub fn keep(&self, who: &Arc<Who>, method: &str, picture: &Picture) -> Result<String, String> {
        let (_, app, _) = who.ids()?;
        if !picture.is_in(&self.folder) {
            let args = Args { method, list: &[] };
            self.write(who, &args, &picture.path(), &picture.bytes)?;
        }
        Ok(picture.url(app))
    }

    fn write(&self, who: &Arc<Who>, args: &Args<'_>, path: &str, bytes: &[u8]) -> Result<Value, String> {
        args.small(bytes, FILE_LIMIT)?;
        let (gate, limit) = who.disk_gate().map_err(|why| args.wrong(why))?;
        let _gate = gate.as_ref().map(|gate| gate.lock());
        self.room(who, args, limit, cost(bytes.len() as u64), path)?;
        let mut work = self.work.lock();
        self.alive(&mut work, args)?;
        match &mut work.transaction {
            Some((_, transaction)) => transaction.write(path, bytes),
            None => self.folder.write(path, bytes),
        }
        .map_err(|error| args.wrong(error))?;
        Ok(Value::Null)
    }

    /// Makes one change that takes up to `more` bytes: in the open transaction of this call, if there is one.
    fn change(
        &self,
        who: &Arc<Who>,
        args: &Args<'_>,
        more: u64,
        plain: impl FnOnce(&GuestFolder) -> Result<(), FileError>,
        within: impl FnOnce(&mut Transaction) -> Result<(), FileError>,
    ) -> Result<Value, String> {
        let (gate, limit) = who.disk_gate().map_err(|why| args.wrong(why))?;
        let _gate = gate.as_ref().filter(|_| more > 0).map(|gate| gate.lock());
        if more > 0 {
            self.room(who, args, limit, more, "")?;
        }
        let mut work = self.work.lock();
        self.alive(&mut work, args)?;
        match &mut work.transaction {
            Some((_, transaction)) => within(transaction),
            None => plain(&self.folder),
        }
        .map_err(|error| args.wrong(error))?;
        Ok(Value::Null)
    }

    /// Whether `more` bytes fit into the app's budget, counting what `replaced` frees. Asked with the app's gate locked,
    /// so that calls side by side cannot pass the limit together.
    fn room(
        &self,
        who: &Arc<Who>,
        args: &Args<'_>,
        limit: Option<u64>,
        more: u64,
        replaced: &str,
    ) -> Result<(), String> {
        let Some(limit) = limit else { return Ok(()) };
        let used = self.folder.usage(limit).map_err(|error| args.wrong(error))?;
        let freed = match replaced {
            "" => 0,
            path => self.folder.stat(path).map_or(0, |stat| cost(stat.size)),
        };
        who.disk(used, more.saturating_sub(freed))
            .map_err(|why| args.wrong(why))
    }

    /// A record under its collection and the hash of its key (contract section 3.4).
    fn lookup(&self, who: &Arc<Who>, args: &Args<'_>) -> Result<Value, String> {
        let (collection, key) = (args.text(0, "the collection")?, args.text(1, "the key")?);
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
        if !(1..=64).contains(&collection.len()) || !collection.bytes().all(plain) {
            return Err(args.wrong("the collection must be 1 to 64 of a-z, A-Z, 0-9, _ and -"));
        }
        if key.len() > RECORD_KEY {
            return Err(args.wrong(format_args!("the key is longer than {RECORD_KEY} bytes")));
        }
        let hash = hex::encode(Sha256::digest(key.to_lowercase().as_bytes()));
        let path = format!("__lookup/{collection}/{hash}.json");
        let Some(value) = args.list.get(2) else {
            return match self.folder.read(&path, FILE_LIMIT) {
                // What somebody else wrote there is no record.
                Ok(bytes) => Ok(serde_json::from_slice(&bytes).unwrap_or(Value::Null)),
                Err(error) if error.is_missing() => Ok(Value::Null),
                Err(error) => Err(args.wrong(error)),
            };
        };
        let json = value.to_string();
        if json.len() > RECORD_LIMIT {
            return Err(args.wrong(format_args!("the value has more than {RECORD_LIMIT} bytes as JSON")));
        }
        self.write(who, args, &path, json.as_bytes())
    }

    fn upload(&self, args: &Args<'_>) -> Result<Value, String> {
        let path = args.path()?;
        let mut work = self.work.lock();
        if work.writers.len() >= WRITERS {
            return Err(args.wrong(format_args!(
                "{WRITERS} files are being written already: close one first"
            )));
        }
        let upload = self.folder.upload(path).map_err(|error| args.wrong(error))?;
        work.next += 1;
        let id = work.next;
        work.writers.insert(id, (path.to_owned(), upload));
        Ok(id.into())
    }

    fn begin(&self, args: &Args<'_>) -> Result<Value, String> {
        let mut work = self.work.lock();
        if work.transaction.is_some() {
            return Err(args.wrong("a transaction of this call is open already"));
        }
        let transaction = self.folder.begin().map_err(|error| args.wrong(error))?;
        work.lapsed = false;
        work.next += 1;
        let id = work.next;
        work.transaction = Some((id, transaction));
        Ok(id.into())
    }

    /// Undoes transaction `id` when it is open for too long. To be awaited beside the call.
    pub fn lapse(&self, id: u64) -> impl Future<Output = ()> + Send + 'static {
        // Not held on to: with the call that began it, the transaction ends at once.
        let work = Arc::downgrade(&self.work);
        async move {
            tokio::time::sleep(TRANSACTION).await;
            let undo = move || {
                let Some(work) = work.upgrade() else { return };
                let mut work = work.lock();
                if work.transaction.as_ref().is_some_and(|(open, _)| *open == id) {
                    work.transaction = None;
                    work.lapsed = true;
                }
            };
            // A runtime that is shutting down drops the transaction in its own way.
            let _ = tokio::task::spawn_blocking(undo).await;
        }
    }

    /// An error once the transaction of this call was undone under it, so that nothing of it is written outside.
    fn alive(&self, work: &mut Work, args: &Args<'_>) -> Result<(), String> {
        if work.lapsed {
            return Err(args.wrong(format_args!(
                "the transaction was open for more than {} s and was undone; begin it again",
                TRANSACTION.as_secs()
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use files::Folder;

    use super::*;

    /// Whoever keeps a transaction open keeps others out; after a minute it is undone, and its call is told.
    #[tokio::test(start_paused = true)]
    async fn a_transaction_does_not_stay_open_for_ever() {
        let home = tempfile::tempdir().unwrap();
        let within = Folder::open_ambient(home.path()).unwrap();
        let folder = GuestFolder::open(&within, "data").unwrap();
        folder.write("a", b"old").unwrap();
        let files = Files::new(folder.clone());
        let args = Args {
            method: "fs.begin",
            list: &[],
        };
        let id = files.begin(&args).unwrap().as_u64().unwrap();
        if let Some((_, transaction)) = &mut files.work.lock().transaction {
            transaction.write("a", b"new").unwrap();
        }
        assert!(files.begin(&args).is_err(), "one at a time");
        let before = tokio::time::Instant::now();
        files.lapse(id).await;
        assert!(before.elapsed() >= TRANSACTION);
        assert_eq!(folder.read("a", 10).unwrap(), b"old");
        folder.write("b", b"others can write again").unwrap();
        let told = files.alive(&mut files.work.lock(), &args).unwrap_err();
        assert!(told.contains("60 s"), "{told}");
        files.begin(&args).unwrap();
        assert!(files.alive(&mut files.work.lock(), &args).is_ok());
    }
}
