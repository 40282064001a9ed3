use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use files::{FileError, Folder, GuestFolder, Kind};
use policy::{AppId, CodeHash, IdError, PluginId};
use serde::Serialize;

use crate::code::code_hash;
use crate::manifest::{AppInfo, AppManifest, MAX_MANIFEST, ManifestError, PluginManifest};
use crate::stage::Staged;

/// Longest `plugin.js`, in bytes.
pub const MAX_SOURCE: u64 = 2 * 1024 * 1024;
/// Most folders looked at in one app's `plugins/`.
pub const MAX_PLUGINS: usize = 64;
/// Where apps are put together and taken apart, inside `apps/`; no app id starts with a dot.
const STAGING: &str = ".staging";
/// What a crash left in staging is kept this long, as in the reference engine (contract section 1, boot tasks).
const STAGING_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Why something in a workspace could not be done. Each text says what, why and what to do.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    #[error("there is no app \"{id}\" here")]
    NoApp { id: AppId },
    #[error("app \"{app}\" has no plugin \"{id}\"")]
    NoPlugin { app: AppId, id: PluginId },
    #[error(
        "an app \"{id}\" is here already: remove it first (chrysalis app remove {id}), or add this one under another name (--id)"
    )]
    Exists { id: AppId },
    #[error("{0}")]
    Manifest(#[from] ManifestError),
    #[error("there is no manifest.json in this folder: choose the folder of an app, the one its manifest.json is in")]
    NotAnApp,
    #[error("plugin \"{id}\": {error}")]
    Plugin { id: String, error: PluginError },
    #[error("its page is missing: {0}")]
    NoPage(crate::pages::NoPage),
    #[error("the name \"{name}\" cannot be the app's id ({error}); give another with --id")]
    Id { name: String, error: IdError },
    #[error(
        "\"{one}\" and \"{other}\" cannot both be there: on many computers, names that differ only by case or by invisible letters are one; rename one"
    )]
    Clash { one: String, other: String },
    #[error("the folder {folder} could not be read: {error}")]
    Folder { folder: String, error: FileError },
    #[error("{0}")]
    File(#[from] FileError),
}

/// Why one plugin cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    #[error("{0}")]
    Id(#[from] IdError),
    #[error("{0}")]
    Manifest(#[from] ManifestError),
    #[error("there is no manifest.json beside its plugin.js")]
    NoManifest,
    #[error("there is no plugin.js beside its manifest.json")]
    NoSource,
    #[error("plugin.js is not UTF-8 text: save it as UTF-8")]
    Encoding,
    #[error("{0}")]
    File(#[from] FileError),
}

/// A folder that is not a working app or plugin, and why; both texts may hold anything and are shown as text only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Broken {
    /// The folder's name.
    pub id: String,
    pub error: String,
}

/// A plugin as read in one go: `code` is the hash of the very bytes that `source` and `manifest` were made from.
#[derive(Debug, Clone)]
pub struct PluginOnDisk {
    pub id: PluginId,
    pub manifest: PluginManifest,
    /// `manifest.json`, as text.
    pub manifest_text: Arc<str>,
    /// `plugin.js`, byte for byte.
    pub source: Arc<str>,
    pub code: CodeHash,
}

impl PluginOnDisk {
    pub(crate) fn of(id: PluginId, manifest: &[u8], source: Vec<u8>) -> Result<Self, PluginError> {
        let code = code_hash([("manifest.json", manifest), ("plugin.js", source.as_slice())]);
        let manifest_text = String::from_utf8_lossy(manifest).into();
        let manifest = PluginManifest::parse(manifest)?;
        let source = String::from_utf8(source).map_err(|_| PluginError::Encoding)?.into();
        Ok(Self {
            id,
            manifest,
            manifest_text,
            source,
            code,
        })
    }
}

/// The files of one account, `accounts/<id>/workspace/`. Cheap to clone; every call blocks on the disk.
///
/// Nothing is cached: plugin files are small, and a cache by time and size could serve code that was changed since.
#[derive(Debug, Clone)]
pub struct Workspace {
    root: Folder,
    apps: Folder,
}

impl Workspace {
    /// Opens the workspace in `folder`, a path of ours, making it and its `apps/` when missing, and drops what crashes
    /// left in staging more than 7 days ago.
    pub fn open(folder: &Path) -> Result<Self, WorkspaceError> {
        let root = Folder::create_ambient(folder).map_err(|error| WorkspaceError::Folder {
            folder: folder.display().to_string(),
            error,
        })?;
        let apps = root.create_folder("apps")?;
        let workspace = Self { root, apps };
        workspace.sweep();
        Ok(workspace)
    }

    /// Every app that can be read, sorted by id, and every other folder with the reason.
    pub fn list(&self) -> Result<(Vec<AppInfo>, Vec<Broken>), WorkspaceError> {
        let (mut apps, mut broken) = (Vec::new(), Vec::new());
        for entry in self.apps.list()? {
            if entry.name.starts_with('.') || matches!(entry.kind, Kind::File | Kind::Special) {
                continue;
            }
            let read = AppId::parse(&entry.name).map_err(|e| e.to_string()).and_then(|id| {
                // Through `app`, so that a link is refused in the same words as everywhere.
                self.app(&id).map_err(|e| e.to_string())
            });
            match read {
                Ok(app) => apps.push(app),
                Err(error) => broken.push(Broken { id: entry.name, error }),
            }
        }
        Ok((apps, broken))
    }

    /// One app.
    pub fn app(&self, id: &AppId) -> Result<AppInfo, WorkspaceError> {
        let folder = self.app_folder(id)?;
        let manifest = match folder.read("manifest.json", MAX_MANIFEST) {
            Err(error) if error.is_missing() => return Err(WorkspaceError::NotAnApp),
            read => AppManifest::parse(&read?)?,
        };
        Ok(AppInfo {
            id: id.clone(),
            manifest,
            plugin_ids: plugin_folders(&folder)?
                .into_iter()
                .filter_map(|id| PluginId::parse(&id).ok())
                .collect(),
            has_data: folder.kind("data")? == Some(Kind::Folder),
        })
    }

    /// An app's data folder, for its plugins; `None` for the shelf, whose plugins have none, and where it cannot be had.
    pub fn data(&self, app: &AppId) -> Option<GuestFolder> {
        if app.is_shelf() {
            return None;
        }
        let opened = GuestFolder::open(&self.apps, &format!("{app}/data"));
        opened
            .inspect_err(|error| tracing::warn!(%app, %error, "the app's data folder cannot be used"))
            .ok()
    }

    /// Where an app's plugins stand. For the shelf that is the workspace itself, whose `plugins/` belong to no app; it need
    /// not be there.
    fn home_of_plugins(&self, app: &AppId) -> Result<Folder, WorkspaceError> {
        if app.is_shelf() {
            Ok(self.root.clone())
        } else {
            self.app_folder(app)
        }
    }

    /// The app's folder: what [`crate::pages::serve`] serves from.
    pub fn app_folder(&self, id: &AppId) -> Result<Folder, WorkspaceError> {
        self.apps.sub(id.as_str()).map_err(|error| match error {
            error if error.is_missing() => WorkspaceError::NoApp { id: id.clone() },
            error => error.into(),
        })
    }

    /// Every plugin of an app, sorted by id, read from disk now; those that cannot be loaded with the reason.
    pub fn plugins(&self, app: &AppId) -> Result<Vec<Result<PluginOnDisk, Broken>>, WorkspaceError> {
        let folder = self.home_of_plugins(app)?;
        let ids = plugin_folders(&folder)?;
        let read = |id: String| {
            let read = PluginId::parse(&id)
                .map_err(PluginError::from)
                .and_then(|id| read_plugin(&folder, &id));
            read.map_err(|error| Broken {
                id,
                error: error.to_string(),
            })
        };
        Ok(ids.into_iter().map(read).collect())
    }

    /// One plugin, read from disk now.
    pub fn plugin(&self, app: &AppId, id: &PluginId) -> Result<PluginOnDisk, WorkspaceError> {
        self.plugin_exists(app, id)?;
        let folder = self.home_of_plugins(app)?;
        read_plugin(&folder, id).map_err(|error| WorkspaceError::Plugin {
            id: id.to_string(),
            error,
        })
    }

    /// An error unless there is such a plugin, working or not.
    pub fn plugin_exists(&self, app: &AppId, id: &PluginId) -> Result<(), WorkspaceError> {
        let folder = self.home_of_plugins(app)?;
        if plugin_folders(&folder)?.iter().any(|found| found == id.as_str()) {
            return Ok(());
        }
        let (app, id) = (app.clone(), id.clone());
        Err(WorkspaceError::NoPlugin { app, id })
    }

    /// Removes a plugin with its files, whole and at once like [`Workspace::remove`].
    pub fn remove_plugin(&self, app: &AppId, id: &PluginId) -> Result<(), WorkspaceError> {
        self.plugin_exists(app, id)?;
        let from = if app.is_shelf() {
            format!("plugins/{id}")
        } else {
            format!("apps/{app}/plugins/{id}")
        };
        let place = format!("{STAGING}/{}", policy::random_hex(16));
        self.apps.create_folder(STAGING)?;
        self.root.rename(&from, &format!("apps/{place}"))?;
        self.drop_staged(&place);
        Ok(())
    }

    /// Puts a staged app into `apps/<id>`: written and synced in a staging folder, then renamed, so that a crash leaves
    /// all of it or nothing. An app that is there stays untouched and is [`WorkspaceError::Exists`].
    pub fn commit(&self, staged: &Staged, id: &AppId) -> Result<(), WorkspaceError> {
        let exists = || WorkspaceError::Exists { id: id.clone() };
        if self.apps.kind(id.as_str())?.is_some() {
            return Err(exists());
        }
        let place = format!("{STAGING}/{}", policy::random_hex(16));
        let written = self.apps.create_folder(&place).and_then(|folder| {
            folder.write_tree(staged.files())?;
            self.apps.rename(&place, id.as_str())
        });
        written.map_err(|error| {
            self.drop_staged(&place);
            match error {
                FileError::Exists { path } if path == id.as_str() => exists(),
                error => error.into(),
            }
        })
    }

    /// Removes an app with all its files. It is gone from the listing at once, whole, even when deleting takes long or is
    /// cut off.
    pub fn remove(&self, id: &AppId) -> Result<(), WorkspaceError> {
        let place = format!("{STAGING}/{}", policy::random_hex(16));
        self.apps.create_folder(STAGING)?;
        self.apps.rename(id.as_str(), &place).map_err(|error| match error {
            error if error.is_missing() => WorkspaceError::NoApp { id: id.clone() },
            error => error.into(),
        })?;
        self.drop_staged(&place);
        Ok(())
    }

    /// Deletes something in staging. What cannot be deleted now is swept later.
    fn drop_staged(&self, place: &str) {
        match self.apps.remove(place) {
            Err(error) if !error.is_missing() => tracing::warn!(%error, "a staging folder was left behind"),
            _ => {}
        }
    }

    fn sweep(&self) {
        let Ok(staging) = self.apps.sub(STAGING) else { return };
        let now = SystemTime::now();
        for entry in staging.list().unwrap_or_default() {
            let age = staging
                .modified(&entry.name)
                .ok()
                .and_then(|at| now.duration_since(at).ok());
            if age.is_some_and(|age| age > STAGING_KEPT) {
                self.drop_staged(&format!("{STAGING}/{}", entry.name));
            }
        }
    }
}

/// The names of the folders in `plugins/` that hold a manifest.json or a plugin.js, sorted.
fn plugin_folders(app: &Folder) -> Result<Vec<String>, FileError> {
    let plugins = match app.sub("plugins") {
        Err(error) if error.is_missing() => return Ok(Vec::new()),
        found => found?,
    };
    let entries = plugins.list()?;
    if entries.len() > MAX_PLUGINS {
        return Err(FileError::Crowded {
            path: "plugins".into(),
            limit: MAX_PLUGINS,
        });
    }
    let mut found = Vec::new();
    for entry in entries {
        if matches!(entry.kind, Kind::File | Kind::Special) || entry.name.starts_with('.') {
            continue;
        }
        // A link in a plugin's place is kept, to be reported when it is read.
        let part = |file: &str| match plugins.kind(&format!("{}/{file}", entry.name)) {
            Ok(kind) => kind.is_some(),
            Err(_) => true,
        };
        if part("manifest.json") || part("plugin.js") {
            found.push(entry.name);
        }
    }
    Ok(found)
}

fn read_plugin(app: &Folder, id: &PluginId) -> Result<PluginOnDisk, PluginError> {
    let folder = app.sub(&format!("plugins/{id}"))?;
    let part = |file: &str, limit: u64, missing: PluginError| match folder.read(file, limit) {
        Err(error) if error.is_missing() => Err(missing),
        read => Ok(read?),
    };
    let manifest = part("manifest.json", MAX_MANIFEST, PluginError::NoManifest)?;
    let source = part("plugin.js", MAX_SOURCE, PluginError::NoSource)?;
    PluginOnDisk::of(id.clone(), &manifest, source)
}
