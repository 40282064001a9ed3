//! A database in a folder of its own, with one account, one app and one plugin.

#![allow(dead_code, reason = "each test file uses a part")]

use std::path::PathBuf;

use db::Db;
use policy::{AccountId, AppId, PluginId};

pub struct House {
    pub db: Db,
    pub path: PathBuf,
    pub account: AccountId,
    pub app: AppId,
    pub plugin: PluginId,
    _folder: tempfile::TempDir,
}

pub fn app(id: &str) -> AppId {
    AppId::parse(id).unwrap()
}

pub fn plugin(id: &str) -> PluginId {
    PluginId::parse(id).unwrap()
}

pub fn house() -> House {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let db = Db::open(&path).unwrap().db;
    let account = AccountId::random();
    db.add_account(&account, "ann", "admin").unwrap();
    House {
        db,
        path,
        account,
        app: app("app"),
        plugin: plugin("p"),
        _folder: folder,
    }
}

/// Random numbers that are the same in every run.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}
