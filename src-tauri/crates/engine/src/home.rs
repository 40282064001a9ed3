//! Opening a home: its folders, lock, settings, database, vault and first account.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use accounts::{SetupToken, Throttle};
use apps::budget::Budgets;
use apps::permission::Permissions;
use apps::plugin_call::Plugins;
use db::Db;
use parking_lot::{Mutex, RwLock};
use policy::{AccountId, AppId, PluginId, random_hex};
use sandbox::{Pool, PoolOptions};
use secrets::{Places, Vault};

use crate::activity::Activity;
use crate::bus::Bus;
use crate::config::{Config, ConfigError};
use crate::spend::Spend;
use crate::{Engine, Inner, Options, TABLE, routes};

/// A home cannot be opened. The text says what, why and what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the home folder {0} cannot be used: {1}. Choose another with --home, or make it writable")]
    Home(PathBuf, std::io::Error),
    #[error("another Chrysalis is running on {0}: use that one, or end it first")]
    Busy(PathBuf),
    #[error("{0}")]
    Config(#[from] ConfigError),
    #[error("{0}")]
    Db(#[from] db::DbError),
    #[error("CHRYSALIS_SETUP_TOKEN cannot be used: {0}")]
    SetupToken(accounts::WeakSetupToken),
    #[error("the worker program {0} is missing: install Chrysalis again (it stands beside the main program)")]
    Worker(PathBuf),
}

/// Held while a home is open; the operating system lets go when the process ends, however it ends.
pub struct HomeLock(#[allow(dead_code)] File);

impl HomeLock {
    /// Takes the lock, or says that someone has it.
    pub fn take(home: &Path) -> Result<Self, OpenError> {
        make_folder(home)?;
        let path = home.join("engine.lock");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|e| OpenError::Home(home.into(), e))?;
        // SAFETY: a plain system call on a descriptor that lives throughout.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            return Err(OpenError::Busy(home.into()));
        }
        Ok(Self(file))
    }
}

/// Makes a folder that only this user can read.
fn make_folder(path: &Path) -> Result<(), OpenError> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|e| OpenError::Home(path.into(), e))
}

/// Makes the database a file that only this user can read, before anything is in it: the home may be a folder that others
/// can look into. SQLite gives its log the same mode. What does not work here is reported when the database is opened.
fn keep_private(path: &Path) {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    let opened = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path);
    if let Ok(file) = opened
        && file
            .metadata()
            .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o077 != 0)
    {
        let _ = file.set_permissions(std::fs::Permissions::from_mode(0o600));
    }
}

pub(crate) fn open(options: Options) -> Result<Engine, OpenError> {
    let home = options.home.clone();
    let lock = HomeLock::take(&home)?;
    for folder in ["accounts", "logs"] {
        make_folder(&home.join(folder))?;
    }
    if !options.worker.is_file() {
        return Err(OpenError::Worker(options.worker));
    }
    let config = Config::load(&home)?;
    let database = home.join("chrysalis.db");
    keep_private(&database);
    let opened = Db::open(&database)?;
    let db = Arc::new(opened.db);
    db.close_activity()?;
    let mut notices = Vec::new();
    if let Some(aside) = opened.set_aside {
        notices.push(format!(
            "The database was damaged and is kept as {}. Chrysalis started with a new one: people, connections and permissions \
             must be set up again; apps and their files are still there. If you have a backup of chrysalis.db, end Chrysalis and \
             put it back.",
            aside.display()
        ));
    }
    let owner = match db.first_account()? {
        Some(account) => account,
        None => {
            // No first start: a database that vanished or is empty must not take the apps with it unsaid.
            let left = account_folders(&home);
            if notices.is_empty() && !left.is_empty() {
                notices.push(format!(
                    "The database {} is missing or empty, although this home was in use. Chrysalis started with a new one: \
                     people, connections and permissions must be set up again; apps and their files are still there. If you \
                     have a backup of chrysalis.db, end Chrysalis and put it back.",
                    home.join("chrysalis.db").display()
                ));
            }
            let id = only(left).unwrap_or_else(AccountId::random);
            db.add_account(&id, "owner", "admin")?;
            db.first_account()?.expect("just added")
        }
    };
    make_folder(&home.join("accounts").join(owner.id.as_str()))?;
    let setup = match (&owner.password, std::env::var("CHRYSALIS_SETUP_TOKEN")) {
        (Some(_), _) => None,
        (None, Ok(text)) => Some(SetupToken::given(&text).map_err(OpenError::SetupToken)?),
        (None, Err(_)) => Some(SetupToken::random()),
    };
    let bus = Arc::new(Bus::new());
    let activity = Arc::new(Activity::new(db.clone(), bus.clone()));
    let pool = Pool::new(PoolOptions {
        worker: options.worker.clone(),
        max_alive: config.max_workers,
        idle: Duration::from_secs(config.worker_idle_seconds),
    });
    let net = net::Net::new(activity.clone()).through(config.proxy.clone());
    let permissions = Arc::new(Permissions::new(db.clone(), config.plugins.clone()));
    let budgets = Arc::new(Budgets::new(db.clone(), config.budgets));
    let spend = Arc::new(Spend::new(db.clone()));
    let engine = Engine(Arc::new(Inner {
        vault: open_vault(&options, &config, &db, &owner.id)?,
        changing_keys: Arc::default(),
        plugins: Plugins::new(pool, db.clone(), net.clone(), permissions, budgets),
        net,
        instance: random_hex(8),
        owner: owner.id,
        config,
        options,
        db,
        activity,
        bus,
        workspaces: Default::default(),
        streams: Default::default(),
        lists: Default::default(),
        quirks: Default::default(),
        spend,
        media: Default::default(),
        bodies: Default::default(),
        frames: Default::default(),
        page_sessions: Default::default(),
        throttle: Throttle::new(),
        setup: RwLock::new(setup.map(Arc::new)),
        notices: Mutex::new(notices),
        changes: AtomicU64::new(0),
        router: RwLock::new(None),
        _lock: lock,
    }));
    Ok(engine.with_router())
}

/// The accounts that have a folder in `home`.
fn account_folders(home: &Path) -> Vec<AccountId> {
    let entries = std::fs::read_dir(home.join("accounts")).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| AccountId::parse(entry.file_name().to_str()?).ok())
        .collect()
}

/// After its database was lost, a home's only account keeps its folder, so that the apps are still there.
fn only(mut accounts: Vec<AccountId>) -> Option<AccountId> {
    accounts.pop().filter(|_| accounts.is_empty())
}

fn open_vault(options: &Options, config: &Config, db: &Db, owner: &AccountId) -> Result<Vault, OpenError> {
    let folder = options.home.join("secrets");
    make_folder(&folder)?;
    let places = Places {
        folder: Some(folder),
        file: config.keys_file.as_ref().map(|file| options.home.join(file)),
    };
    let name = vault_name(db, owner)?;
    Ok(Vault::open_in(options.keychain, &name, places, || {
        known_keys(db).unwrap_or_else(|error| {
            tracing::warn!(%error, "which keys the keychain holds is not known");
            Vec::new()
        })
    }))
}

/// Names of the keys that version 0.1 may have put into the keychain: it kept no list of them.
fn known_keys(db: &Db) -> db::Result<Vec<String>> {
    let mut ids = Vec::new();
    for account in db.account_ids()? {
        let rows = db.connections(&account)?;
        ids.extend(rows.iter().map(|row| Engine::key_id(&account, &row.id)));
        let apps = db.installs(&account)?.into_keys();
        for app in apps.filter_map(|app| AppId::parse(&app).ok()).chain([AppId::shelf()]) {
            for one in db.app_secrets(&account, &app)? {
                let plugin = PluginId::parse(&one.plugin).ok();
                ids.extend(plugin.and_then(|plugin| secrets::plugin_secret_id(&account, &app, &plugin, &one.name)));
            }
        }
    }
    Ok(ids)
}

/// The name this home has in the keychain: random, so that two homes never share a key.
fn vault_name(db: &Db, owner: &AccountId) -> Result<String, OpenError> {
    if let Some(name) = db
        .setting(owner, "vaultName")?
        .and_then(|v| v.as_str().map(str::to_owned))
    {
        return Ok(name);
    }
    let name = format!("chrysalis-{}", random_hex(8));
    let mut values = serde_json::Map::new();
    values.insert("vaultName".into(), name.clone().into());
    db.put_settings(owner, &values)?;
    Ok(name)
}

impl Engine {
    fn with_router(self) -> Self {
        let (router, access) = routes::build(&self);
        *TABLE.lock() = Vec::leak(access);
        *self.0.router.write() = Some(router.with_state(self.clone()));
        self
    }
}
