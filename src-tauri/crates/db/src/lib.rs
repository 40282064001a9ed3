//! SQLite: schema, migrations and typed queries. The only crate that speaks SQL.
//!
//! Two connections write to one file in WAL mode. The *careful* one syncs every commit to disk and carries what a power
//! cut must not lose (accounts, sessions, connections, what a person decided about apps and plugins); the *quick* one syncs at checkpoints and carries what
//! only has to survive the process (plugin stores, page storage, usage, activity). Both survive `kill -9` alike.

mod accounts;
mod activity;
mod assets;
mod connections;
mod grants;
mod migrations;
mod model_settings;
mod page_storage;
mod plugins;
mod settings;
mod speech;
mod spend;
mod store;
mod usage;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode, OpenFlags};

pub use accounts::{AccountRow, SessionRow};
pub use activity::{ActivityEnd, ActivityEntry, ActivityFilter, NewActivity};
pub use assets::AssetRow;
pub use connections::ConnectionRow;
pub use model_settings::ModelOverride;
pub use page_storage::PAGE_QUOTA;
pub use plugins::{KEPT_CODE_LIMIT, PendingUpdate, PluginSecret};
pub use speech::SpeechEndpointRow;
pub use spend::{SPEND_DAYS, Span, SpendLimitRow, SpendLimits, Spender, Spent};
pub use store::{SCAN_LIMIT, STORE_QUOTA, StoreOp};
pub use usage::{Exceeded, USAGE_DAYS, Usage, UsageLimits, utc_day};

/// Schema version this program writes. A file with a higher one is refused.
pub const VERSION: i64 = migrations::STEPS.len() as i64;

#[derive(Debug, thiserror::Error)]
pub enum DbError {
    #[error(
        "the database {0} was written by a newer Chrysalis (format {1}, this program knows up to {VERSION}): \
         start the newer program, or use another --home"
    )]
    Newer(PathBuf, i64),
    #[error("the database {0} cannot be opened: {1}. Check that the folder exists and may be written")]
    Open(PathBuf, rusqlite::Error),
    #[error("the damaged database {0} could not be set aside: {1}. Move it away by hand and start again")]
    SetAside(PathBuf, std::io::Error),
    #[error("the disk is full and nothing was written: free some space and try again")]
    DiskFull,
    #[error("database: {0}")]
    Sql(rusqlite::Error),
    #[error(
        "the store is full: {used} of {quota} bytes are used and this write needs {needed} more. Delete something first"
    )]
    Quota { used: u64, quota: u64, needed: u64 },
    #[error(transparent)]
    Exceeded(#[from] Exceeded),
    #[error("a stored value is not valid JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the name \"{0}\" is taken")]
    NameTaken(String),
}

impl From<rusqlite::Error> for DbError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::DiskFull,
            _ => Self::Sql(error),
        }
    }
}

pub type Result<T> = std::result::Result<T, DbError>;

/// An open database. Every method blocks for a disk access at most; writes on the careful connection wait for a sync, so
/// asynchronous callers run those on a blocking thread.
pub struct Db {
    careful: Mutex<Connection>,
    quick: Mutex<Connection>,
}

/// What opening found.
#[derive(Debug)]
pub struct Opened {
    pub db: Db,
    /// Where a damaged database was moved, if there was one. The new one is empty.
    pub set_aside: Option<PathBuf>,
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Db")
    }
}

/// Milliseconds since the Unix epoch.
pub fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_millis() as i64)
}

fn damaged(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    )
}

fn connect(path: &Path, synchronous: &str) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "secure_delete", true)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// Files up to this size are checked whole at every start; reading 64 MiB takes well under the start's budget.
const CHECK_WHOLE: u64 = 64 << 20;

fn open_checked(path: &Path) -> std::result::Result<Connection, DbError> {
    let opened = (|| {
        let connection = connect(path, "FULL")?;
        let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if std::fs::metadata(path).is_ok_and(|m| m.len() <= CHECK_WHOLE) {
            let verdict: String = connection.pragma_query_value(None, "quick_check", |row| row.get(0))?;
            if verdict != "ok" {
                let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
                return Err(rusqlite::Error::SqliteFailure(code, Some(verdict)));
            }
        }
        Ok((connection, version))
    })();
    let (mut connection, version) = opened.map_err(|error| DbError::Open(path.into(), error))?;
    if version > VERSION {
        return Err(DbError::Newer(path.into(), version));
    }
    migrations::run(&mut connection, version).map_err(|error| DbError::Open(path.into(), error))?;
    Ok(connection)
}

/// Moves the database and what stands beside it out of the way; gives the new name of the first that was there.
fn set_aside(path: &Path) -> std::io::Result<PathBuf> {
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("chrysalis.db");
    let kept = format!("{name}.damaged-{}", now_ms());
    let mut first = None;
    for suffix in ["", "-wal", "-shm"] {
        let from = path.with_file_name(format!("{name}{suffix}"));
        if from.exists() {
            let to = path.with_file_name(format!("{kept}{suffix}"));
            std::fs::rename(&from, &to)?;
            first.get_or_insert(to);
        }
    }
    first.ok_or_else(|| std::io::ErrorKind::NotFound.into())
}

/// Whether the database file is gone or empty while its write-ahead log holds something. SQLite would delete the log.
fn only_its_log_is_left(path: &Path) -> bool {
    let length = |path: &Path| std::fs::metadata(path).map_or(0, |m| m.len());
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    length(path) == 0 && length(Path::new(&log)) > 0
}

impl Db {
    /// Opens or creates the database at `path` and brings its schema up to date.
    ///
    /// A damaged file is never repaired or overwritten: it is renamed beside the new one and its new name returned.
    pub fn open(path: &Path) -> Result<Opened> {
        let mut moved = None;
        if only_its_log_is_left(path) {
            tracing::error!("the database is empty or gone, but not its log, which is set aside");
            moved = Some(set_aside(path).map_err(|e| DbError::SetAside(path.into(), e))?);
        }
        let careful = match open_checked(path) {
            Err(DbError::Open(at, error)) if damaged(&error) => {
                tracing::error!(error = %error, "the database is damaged and is set aside");
                moved = Some(set_aside(path).map_err(|e| DbError::SetAside(at, e))?);
                open_checked(path)?
            }
            other => other?,
        };
        let quick = connect(path, "NORMAL").map_err(|e| DbError::Open(path.into(), e))?;
        Ok(Opened {
            db: Db {
                careful: Mutex::new(careful),
                quick: Mutex::new(quick),
            },
            set_aside: moved,
        })
    }

    /// Folds the write-ahead log into the database file and closes it, at a clean end; whoever still asks gets errors.
    /// Not left to the last owner being dropped: tasks that are cut off when the program ends never drop theirs.
    pub fn close(&self) {
        for connection in [&self.quick, &self.careful] {
            // An empty database takes the file's place. Closing the last connection folds the log in and removes it.
            if let Ok(nothing) = Connection::open_in_memory() {
                *connection.lock() = nothing;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_is_set_aside_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chrysalis.db");
        std::fs::write(&path, b"this is no database, but somebody may want it back").unwrap();
        let opened = Db::open(&path).unwrap();
        let aside = opened.set_aside.expect("named");
        assert_eq!(
            std::fs::read(aside).unwrap(),
            b"this is no database, but somebody may want it back"
        );
        drop(opened.db);
        assert!(Db::open(&path).unwrap().set_aside.is_none());
    }

    #[test]
    fn damage_inside_the_file_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chrysalis.db");
        Db::open(&path).unwrap().db.close();
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle..].fill(0xa5);
        std::fs::write(&path, &bytes).unwrap();
        let _ = std::fs::remove_file(folder.path().join("chrysalis.db-wal"));
        let opened = Db::open(&path).unwrap();
        assert_eq!(std::fs::read(opened.set_aside.expect("named")).unwrap(), bytes);
    }

    #[test]
    fn a_newer_format_is_refused_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chrysalis.db");
        drop(Db::open(&path).unwrap());
        connect(&path, "FULL")
            .unwrap()
            .pragma_update(None, "user_version", VERSION + 1)
            .unwrap();
        let error = Db::open(&path).unwrap_err();
        assert!(matches!(error, DbError::Newer(..)), "{error}");
        assert!(path.exists());
    }

    #[test]
    fn closing_folds_the_log_in_though_someone_holds_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("chrysalis.db");
        let db = Db::open(&path).unwrap().db;
        db.add_account(&policy::AccountId::random(), "ann", "admin").unwrap();
        assert!(folder.path().join("chrysalis.db-wal").exists());
        db.close();
        assert!(!folder.path().join("chrysalis.db-wal").exists());
        assert!(db.usernames().is_err());
        assert_eq!(Db::open(&path).unwrap().db.usernames().unwrap(), ["ann"]);
    }
}
