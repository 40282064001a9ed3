//! Apps: listing, adding from the box or a folder, their plugins' permissions, and frames for browsers.

use std::path::PathBuf;

use apps::stage::{Staged, embedded_files};
use apps::workspace::{PluginOnDisk, WorkspaceError};
use axum::extract::{Path, State};
use axum::{Extension, Json};
use http::StatusCode;
use include_dir::{Dir, include_dir};
use policy::{AppId, Caller, Callers, Capability, Condition, GrantState};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::door::{Given, Person, Table};
use crate::error::{Answer, ApiError};
use crate::{Engine, Session, blocking};

/// Apps shipped in the program.
static BOX: Dir<'_> = include_dir!("$OUT_DIR/box");

pub fn routes(table: Table) -> Table {
    let (person, always) = (Callers::PERSON, Condition::Always);
    table
        .route("GET", "/v1/launch", person, always, launch)
        .route("GET", "/v1/apps", person, always, list)
        .route("POST", "/v1/apps/import", person, always, import)
        .route("DELETE", "/v1/apps/{app}", person, always, remove)
        .route("POST", "/v1/apps/{app}/frame", Callers::OWNER, always, open_frame)
        .route(
            "DELETE",
            "/v1/apps/{app}/frame/{token}",
            Callers::OWNER,
            always,
            close_frame,
        )
}

fn said(error: WorkspaceError) -> ApiError {
    ApiError::bad(error.to_string())
}

async fn launch(State(engine): State<Engine>, person: Person) -> Answer<Json<Value>> {
    let settings = engine.db().settings(&person.account)?;
    let notices = engine.notices();
    let answer = blocking(move || -> Answer<Value> {
        let workspace = engine.workspace(&person.account)?;
        let (apps, broken) = workspace.list().map_err(said)?;
        let installs = engine.db().installs(&person.account)?;
        let mut shown = Vec::new();
        for app in &apps {
            let mut waiting = 0;
            let mut failed = Vec::new();
            let mut reach = Vec::new();
            for plugin in workspace.plugins(&app.id).map_err(said)? {
                match plugin {
                    Ok(plugin) => {
                        let permissions = engine.plugins().permissions();
                        for asked in permissions.states(
                            &person.account,
                            &app.id,
                            &plugin.id,
                            plugin.code,
                            &plugin.manifest,
                        )? {
                            // What was refused, or cannot be allowed, waits for nobody.
                            let open = matches!(asked.state, GrantState::Asked | GrantState::Stale);
                            waiting += usize::from(open && asked.policy.is_none());
                            reach.push(asked.capability.sentence());
                        }
                    }
                    Err(broken) => failed.push(json!({"id": broken.id, "error": broken.error})),
                }
            }
            reach.sort_unstable();
            reach.dedup();
            shown.push(json!({
                "id": app.id, "name": app.manifest.name, "kind": app.manifest.kind, "author": app.manifest.author,
                "description": app.manifest.description, "version": app.manifest.version, "official": installs.get(app.id.as_str()).is_some_and(|source| source == "box"),
                "repository": app.manifest.repository, "plugins": app.plugin_ids.len(), "waiting": waiting,
                "reach": reach, "brokenPlugins": failed,
            }));
        }
        let boxed = BOX.dirs().filter_map(|dir| {
            let id = dir.path().file_name()?.to_str()?.to_owned();
            let manifest: Value =
                serde_json::from_slice(dir.get_file(dir.path().join("manifest.json"))?.contents()).ok()?;
            let added = apps.iter().any(|a| a.id.as_str() == id);
            Some(json!({"id": id, "name": manifest["name"], "description": manifest["description"], "added": added}))
        });
        Ok(json!({
            "apps": shown, "broken": broken, "box": boxed.collect::<Vec<_>>(),
            "engine": {"version": crate::VERSION, "repository": null, "admin": true},
            "agent": false, "default": settings.get("launchDefault"), "notices": notices,
        }))
    })
    .await?;
    Ok(Json(answer))
}

async fn list(State(engine): State<Engine>, person: Person) -> Answer<Json<Value>> {
    let workspace = engine.workspace(&person.account)?;
    let (apps, broken) = blocking(move || workspace.list()).await.map_err(said)?;
    Ok(Json(json!({"apps": apps, "broken": broken})))
}

#[derive(Deserialize)]
struct Import {
    r#box: Option<String>,
    folder: Option<PathBuf>,
    id: Option<String>,
    #[serde(default)]
    confirm: bool,
    head: Option<String>,
    /// Whether confirming also allows what the plugins ask for.
    #[serde(default = "yes")]
    grant: bool,
}

fn yes() -> bool {
    true
}

fn stage(import: &Import, caller: &Caller) -> Answer<Staged> {
    let id = import.id.as_deref().map(AppId::parse).transpose()?;
    match (&import.r#box, &import.folder) {
        (Some(name), None) => {
            let id = match id {
                Some(id) => id,
                None => AppId::parse(name)?,
            };
            let found = BOX
                .get_dir(name)
                .ok_or_else(|| ApiError::missing(format!("There is no app \"{name}\" in the box.")))?;
            Staged::from_files(id, embedded_files(found)).map_err(said)
        }
        (None, Some(folder)) => {
            // A path of this machine means something only to who sits at it, not to a browser.
            if !matches!(caller, Caller::CommandLine { .. }) {
                return Err(
                    ApiError::forbidden("Folders are added on the command line: chrysalis app add FOLDER.")
                        .code("refused"),
                );
            }
            if !folder.is_absolute() {
                return Err(ApiError::bad("The folder's path must be absolute."));
            }
            Staged::from_folder(folder, id.as_ref()).map_err(said)
        }
        _ => Err(ApiError::bad("Say which app: {\"box\": name}.")),
    }
}

async fn import(
    State(engine): State<Engine>,
    person: Person,
    Given(import): Given<Import>,
) -> Answer<(StatusCode, Json<Value>)> {
    let answer = blocking(move || -> Answer<(StatusCode, Value)> {
        let staged = stage(&import, &person.caller)?;
        refuse_clashes(&staged)?;
        let workspace = engine.workspace(&person.account)?;
        let installed = workspace.list().map_err(said)?.0.iter().any(|a| a.id == staged.id);
        if !import.confirm {
            return Ok((StatusCode::OK, preview(&engine, &staged, installed)));
        }
        if import.head.as_deref() != Some(staged.head.as_str()) {
            return Err(
                ApiError::conflict("The app changed since it was shown. Look at it again before adding it.")
                    .code("changed"),
            );
        }
        let _turn = engine.changing_keys_here();
        workspace
            .commit(&staged, &staged.id)
            .map_err(|e| ApiError::conflict(e.to_string()))?;
        // What hung on an earlier app of this name is not inherited.
        engine.drop_app_secrets(&person.account, &staged.id)?;
        engine.db().forget_app(&person.account, &staged.id)?;
        let source = if import.r#box.is_some() { "box" } else { "folder" };
        engine
            .db()
            .note_install(&person.account, &staged.id, source, &staged.head)?;
        if import.grant {
            for plugin in &staged.plugins {
                engine.grant(
                    &person.account,
                    &staged.id,
                    plugin,
                    &engine.grantable(&staged.id, plugin),
                    &[],
                    &person.caller.label(),
                )?;
            }
        }
        engine.apps_changed(&person.account, &staged.id, false);
        Ok((StatusCode::CREATED, json!({"id": staged.id})))
    })
    .await?;
    Ok((answer.0, Json(answer.1)))
}

/// Two plugins that claim the same beginning of paths would answer for each other, by the order of their folders.
fn refuse_clashes(staged: &Staged) -> Answer<()> {
    for (at, one) in staged.plugins.iter().enumerate() {
        for other in &staged.plugins[at + 1..] {
            if let Some(why) = apps::manifest::clash(&one.manifest, &other.manifest) {
                return Err(ApiError::new(
                    StatusCode::UNPROCESSABLE_ENTITY,
                    format!("The plugins {} and {} cannot be in one app: {why}.", one.id, other.id),
                )
                .code("clash"));
            }
        }
    }
    Ok(())
}

fn preview(engine: &Engine, staged: &Staged, installed: bool) -> Value {
    let plugins = staged.plugins.iter().map(|plugin| {
        let permissions = plugin
            .manifest
            .asks()
            .into_iter()
            .map(|(c, scope)| permission(engine, &staged.id, plugin, c, scope));
        let secrets = plugin
            .manifest
            .secrets
            .iter()
            .map(|one| json!({"name": one.name, "origin": one.origin, "reason": one.reason}));
        json!({
            "id": plugin.id, "name": plugin.manifest.name, "description": plugin.manifest.description,
            "hash": plugin.code.to_hex(), "permissions": permissions.collect::<Vec<_>>(),
            "secrets": secrets.collect::<Vec<_>>(), "intervalMs": plugin.manifest.interval_ms,
        })
    });
    json!({
        "id": staged.id, "name": staged.manifest.name, "version": staged.manifest.version, "author": staged.manifest.author,
        "description": staged.manifest.description, "head": staged.head, "plugins": plugins.collect::<Vec<_>>(),
        "files": staged.files().map(|(path, bytes)| json!({"path": path, "size": bytes.len()})).collect::<Vec<_>>(),
        "installed": installed,
    })
}

fn permission(
    engine: &Engine,
    app: &AppId,
    plugin: &PluginOnDisk,
    capability: Capability,
    scope: Vec<String>,
) -> Value {
    let policy = engine
        .plugins()
        .permissions()
        .forbidden(app, &plugin.id, capability, &scope);
    json!({
        "policy": policy,
        "capability": capability, "sentence": capability.sentence(), "reason": plugin.manifest.reasons.get(&capability),
        "hosts": scope, "local": capability == Capability::LocalNetwork,
    })
}

async fn remove(State(engine): State<Engine>, person: Person, Path(app): Path<String>) -> Answer<StatusCode> {
    let app = AppId::parse(&app)?;
    blocking(move || -> Answer<()> {
        let _turn = engine.changing_keys_here();
        engine
            .workspace(&person.account)?
            .remove(&app)
            .map_err(|e| ApiError::missing(e.to_string()))?;
        engine.forget_running(&person.account, &app);
        engine.drop_app_secrets(&person.account, &app)?;
        engine.db().forget_app(&person.account, &app)?;
        engine.apps_changed(&person.account, &app, true);
        Ok(())
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn open_frame(
    State(engine): State<Engine>,
    person: Person,
    session: Option<Extension<Session>>,
    Path(app): Path<String>,
) -> Answer<Json<Value>> {
    let app = AppId::parse(&app)?;
    let Some(Extension(session)) = session else {
        return Err(ApiError::bad(
            "Frames are for browsers; here an app has its own window.",
        ));
    };
    engine
        .workspace(&person.account)?
        .app(&app)
        .map_err(|e| ApiError::missing(e.to_string()))?;
    let token = engine.frames().open(&session, &person.account, &app);
    Ok(Json(json!({"token": token, "url": format!("/frame/{token}/")})))
}

#[derive(Deserialize)]
struct FramePath {
    app: String,
    token: String,
}

async fn close_frame(State(engine): State<Engine>, person: Person, Path(path): Path<FramePath>) -> Answer<StatusCode> {
    engine
        .frames()
        .close(&path.token, &person.account, &AppId::parse(&path.app)?);
    Ok(StatusCode::NO_CONTENT)
}
