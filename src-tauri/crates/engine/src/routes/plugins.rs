//! Plugins as a person manages them: what each may do, what it used, and turning it off.

use axum::Json;
use axum::extract::{DefaultBodyLimit, FromRequest, Path, Request, State};
use db::UsageLimits;
use http::StatusCode;
use policy::{AccountId, AppId, Callers, Capability, CodeHash, Condition, JOINT, PluginId};
use secrets::{Origin, Secret, Store};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use url::Url;

use apps::plugin_call::{PluginError, global_id};
use apps::route::RouteRequest;
use apps::workspace::{PluginOnDisk, WorkspaceError};

use crate::difference::difference;
use crate::door::{Context, Given, Person, Table};
use crate::error::{Answer, ApiError};
use crate::plugins::Owned;
use crate::routes::pages::{IMPORT_LIMIT, offered, take_archive};
use crate::{Engine, blocking};

pub fn routes(table: Table) -> Table {
    let (person, always) = (Callers::PERSON, Condition::Always);
    let one = "/v1/apps/{app}/plugins/{plugin}";
    table
        .route("GET", "/v1/apps/{app}/plugins", person, always, list)
        .route("DELETE", one, person, always, remove)
        .route("POST", "/v1/apps/{app}/plugins/{plugin}/enable", person, always, enable)
        .route(
            "POST",
            "/v1/apps/{app}/plugins/{plugin}/disable",
            person,
            always,
            disable,
        )
        .route(
            "GET",
            "/v1/apps/{app}/plugins/{plugin}/difference",
            person,
            always,
            changed,
        )
        .route("POST", "/v1/apps/{app}/plugins/{plugin}/call", person, always, call)
        .route("GET", "/v1/apps/{app}/plugins/{plugin}/tools", person, always, tools)
        .route(
            "POST",
            "/v1/apps/{app}/plugins/{plugin}/tools/{name}",
            person,
            always,
            run_tool,
        )
        .route("POST", "/v1/data-updates/{app}", person, always, data_update)
        .route("POST", "/v1/plugins/{plugin}/approve", person, always, approve)
        .route("POST", "/v1/plugins/{plugin}/revoke", person, always, revoke)
        .route("PUT", "/v1/plugins/{plugin}/secrets/{name}", person, always, put_secret)
        .route(
            "DELETE",
            "/v1/plugins/{plugin}/secrets/{name}",
            person,
            always,
            delete_secret,
        )
        .route("PUT", "/v1/budgets/{app}", person, always, budget)
        .route("POST", "/v1/activity/{app}/stop", person, always, stop)
}

/// Errors of a plugin that are shown.
const ERRORS_SHOWN: usize = 5;
/// Bytes of a secret.
const SECRET_LIMIT: usize = 4096;

/// An app's id as persons may name it: `_` is the shelf of plugins that belong to no app.
pub(crate) fn app_or_shelf(text: &str) -> Answer<AppId> {
    if text == AppId::shelf().as_str() {
        return Ok(AppId::shelf());
    }
    Ok(AppId::parse(text)?)
}

/// `<app>__<plugin>`, or the id alone of a plugin that belongs to no app. An app's id may have `__` in it, a plugin's not.
fn global(text: &str) -> Answer<(AppId, PluginId)> {
    Ok(match text.rsplit_once(JOINT) {
        Some((app, plugin)) => (AppId::parse(app)?, PluginId::parse(plugin)?),
        None => (AppId::shelf(), PluginId::parse(text)?),
    })
}

fn missing(error: WorkspaceError) -> ApiError {
    ApiError::missing(error.to_string())
}

fn permissions(engine: &Engine, account: &AccountId, app: &AppId, plugin: &PluginOnDisk) -> Answer<Vec<Value>> {
    let states = engine
        .plugins()
        .permissions()
        .states(account, app, &plugin.id, plugin.code, &plugin.manifest)?;
    let shown = states.into_iter().map(|asked| {
        json!({
            "capability": asked.capability, "sentence": asked.capability.sentence(), "state": asked.state,
            "reason": plugin.manifest.reasons.get(&asked.capability), "hosts": asked.scope, "policy": asked.policy,
            "local": (asked.capability == Capability::LocalNetwork).then_some(true),
        })
    });
    Ok(shown.collect())
}

async fn list(State(engine): State<Engine>, person: Person, Path(app): Path<String>) -> Answer<Json<Value>> {
    let app = app_or_shelf(&app)?;
    let shown = blocking(move || -> Answer<Value> {
        let workspace = engine.workspace(&person.account)?;
        let mut shown = Vec::new();
        for plugin in workspace.plugins(&app).map_err(missing)? {
            shown.push(match plugin {
                Err(broken) => {
                    let id = PluginId::parse(&broken.id);
                    // A folder whose name is no id must not pass for the plugin of another app.
                    let global = id.map(|id| global_id(&app, &id)).ok();
                    json!({"id": broken.id, "globalId": global, "error": broken.error, "permissions": [], "enabled": false})
                }
                Ok(plugin) => one(&engine, &person.account, &app, &plugin)?,
            });
        }
        Ok(json!({"plugins": shown, "usage": usage(&engine, &person.account, &app)?}))
    })
    .await?;
    Ok(Json(shown))
}

fn one(engine: &Engine, account: &AccountId, app: &AppId, plugin: &PluginOnDisk) -> Answer<Value> {
    let db = engine.db();
    let label = format!("plugin:{app}/{}", plugin.id);
    let errors = db.activity_errors(account, app, &label, ERRORS_SHOWN)?;
    let errors = errors
        .into_iter()
        .map(|entry| json!({"at": entry.at, "target": entry.target, "detail": entry.detail}));
    let saved = db.plugin_secrets(account, app, &plugin.id)?;
    // A name in the database is no secret in the keychain: without one, what was given ends with the run.
    let kept = |name: &str| {
        let id = secrets::plugin_secret_id(account, app, &plugin.id, name);
        id.is_some_and(|id| engine.vault().has(&id).is_some())
    };
    let mut secrets: Vec<Value> = plugin
        .manifest
        .secrets
        .iter()
        .map(|wanted| {
            let at = saved.iter().find(|one| one.name == wanted.name);
            json!({
                "name": wanted.name, "reason": wanted.reason, "saved": at.is_some() && kept(&wanted.name),
                "lost": at.is_some() && !kept(&wanted.name),
                "origin": at.map_or(wanted.origin.as_str(), |one| one.origin.as_str()),
            })
        })
        .collect();
    for one in &saved {
        if !plugin.manifest.secrets.iter().any(|wanted| wanted.name == one.name) {
            let there = kept(&one.name);
            secrets.push(json!({"name": one.name, "origin": one.origin, "saved": there, "lost": !there}));
        }
    }
    let permissions = permissions(engine, account, app, plugin)?;
    let changed = permissions.iter().any(|p| p["state"] == "stale");
    Ok(json!({
        "id": plugin.id, "globalId": global_id(app, &plugin.id), "name": plugin.manifest.name,
        "version": plugin.manifest.version, "description": plugin.manifest.description, "hash": plugin.code.to_hex(),
        "enabled": engine.enabled(account, app, plugin), "permissions": permissions, "changed": changed,
        "lastErrors": errors.collect::<Vec<_>>(), "secrets": secrets, "intervalMs": plugin.manifest.interval_ms,
    }))
}

fn usage(engine: &Engine, account: &AccountId, app: &AppId) -> Answer<Value> {
    let shown = engine
        .plugins()
        .budgets()
        .shown(account, app, engine.workspace(account)?.data(app).as_ref());
    Ok(shown)
}

#[derive(Deserialize)]
struct Approve {
    head: String,
    capabilities: Option<Vec<String>>,
}

async fn approve(
    State(engine): State<Engine>,
    person: Person,
    Path(name): Path<String>,
    Given(wanted): Given<Approve>,
) -> Answer<Json<Value>> {
    let (app, id) = global(&name)?;
    let seen = CodeHash::parse(&wanted.head)
        .ok_or_else(|| ApiError::bad("head is the hash that was shown, 64 hex digits."))?;
    let forbidden = blocking(move || -> Answer<Vec<Capability>> {
        let plugin = engine.workspace(&person.account)?.plugin(&app, &id).map_err(missing)?;
        if plugin.code != seen {
            return Err(ApiError::conflict(
                "The plugin changed since it was shown. Look at it again before allowing it.",
            )
            .code("changed"));
        }
        let asked = plugin.manifest.asks();
        let mut forbidden = Vec::new();
        let (granted, denied) = match wanted.capabilities {
            // All that is possible; what config.toml leaves out is named in the answer and stays as it was.
            None => {
                let possible = engine.grantable(&app, &plugin);
                let left_out = asked.into_iter().filter(|one| !possible.contains(one));
                forbidden.extend(left_out.map(|(capability, _)| capability));
                (possible, Vec::new())
            }
            Some(names) => {
                let mut chosen = Vec::new();
                for name in names {
                    let capability = Capability::parse(&name).map_err(|e| ApiError::bad(e.to_string()))?;
                    if !asked.iter().any(|(c, _)| *c == capability) {
                        return Err(ApiError::bad(format!(
                            "The plugin does not ask for \"{name}\", so it cannot be allowed."
                        )));
                    }
                    chosen.push(capability);
                }
                let (granted, denied): (Vec<_>, Vec<_>) = asked.into_iter().partition(|(c, _)| chosen.contains(c));
                (granted, denied.into_iter().map(|(c, _)| c).collect())
            }
        };
        engine.grant(
            &person.account,
            &app,
            &plugin,
            &granted,
            &denied,
            &person.caller.label(),
        )?;
        engine.plugins_changed(&person.account, &app);
        Ok(forbidden)
    })
    .await?;
    Ok(Json(json!({"ok": true, "forbidden": forbidden})))
}

impl Engine {
    /// Writes down what a person decided about a plugin's code, and the code, so that a later change can be shown.
    ///
    /// What the administrator's policy forbids is refused by name before anything is written.
    pub(crate) fn grant(
        &self,
        account: &AccountId,
        app: &AppId,
        plugin: &PluginOnDisk,
        granted: &[(Capability, Vec<String>)],
        denied: &[Capability],
        by: &str,
    ) -> Answer<()> {
        for (capability, scope) in granted {
            if let Some(why) = self
                .plugins()
                .permissions()
                .forbidden(app, &plugin.id, *capability, scope)
            {
                return Err(ApiError::forbidden(why).code("policy"));
            }
        }
        self.db()
            .decide(account, app, &plugin.id, plugin.code, granted, denied, by)?;
        let files = [
            ("manifest.json".to_owned(), plugin.manifest_text.to_string()),
            ("plugin.js".to_owned(), plugin.source.to_string()),
        ];
        self.db().keep_code(account, app, &plugin.id, plugin.code, &files)?;
        Ok(())
    }

    /// After a change of what plugins may do: launchers look again, pages are told, the clock reads its list anew.
    pub(crate) fn plugins_changed(&self, account: &AccountId, app: &AppId) {
        self.note_change();
        self.apps_changed(account, app, false);
    }
}

#[derive(Deserialize)]
struct Revoke {
    capability: Option<String>,
}

async fn revoke(
    State(engine): State<Engine>,
    person: Person,
    Path(name): Path<String>,
    Given(wanted): Given<Revoke>,
) -> Answer<Json<Value>> {
    let (app, id) = global(&name)?;
    let capability = wanted
        .capability
        .map(|name| Capability::parse(&name).map_err(|e| ApiError::bad(e.to_string())))
        .transpose()?;
    let label = person.caller.label();
    blocking(move || -> Answer<()> {
        engine.db().revoke(&person.account, &app, &id, capability, &label)?;
        engine.plugins_changed(&person.account, &app);
        Ok(())
    })
    .await?;
    Ok(Json(json!({"ok": true})))
}

#[derive(Deserialize)]
struct Named {
    app: String,
    plugin: String,
}

impl Named {
    fn read(&self) -> Answer<(AppId, PluginId)> {
        Ok((app_or_shelf(&self.app)?, PluginId::parse(&self.plugin)?))
    }
}

async fn switch(engine: Engine, person: Person, named: Named, on: bool) -> Answer<Json<Value>> {
    let (app, id) = named.read()?;
    let (of, account, key) = (engine.clone(), person.account.clone(), id.clone());
    let shown = app.clone();
    blocking(move || -> Answer<()> {
        of.workspace(&account)?.plugin_exists(&app, &key).map_err(missing)?;
        of.db().set_plugin_enabled(&account, &app, &key, on)?;
        of.plugins_changed(&account, &app);
        Ok(())
    })
    .await?;
    if !on {
        let key = format!("{}/{shown}/{id}", person.account);
        engine.plugins().pool().stop(|running| running == key);
    }
    Ok(Json(json!({"ok": true, "enabled": on})))
}

async fn enable(State(engine): State<Engine>, person: Person, Path(named): Path<Named>) -> Answer<Json<Value>> {
    switch(engine, person, named, true).await
}

async fn disable(State(engine): State<Engine>, person: Person, Path(named): Path<Named>) -> Answer<Json<Value>> {
    switch(engine, person, named, false).await
}

async fn remove(State(engine): State<Engine>, person: Person, Path(named): Path<Named>) -> Answer<StatusCode> {
    let (app, id) = named.read()?;
    let key = format!("{}/{app}/{id}", person.account);
    engine.plugins().pool().stop(|running| running == key);
    blocking(move || -> Answer<()> {
        let _turn = engine.changing_keys_here();
        engine
            .workspace(&person.account)?
            .remove_plugin(&app, &id)
            .map_err(missing)?;
        for one in engine.db().plugin_secrets(&person.account, &app, &id)? {
            engine.drop_secret(&person.account, &app, &id, &one.name)?;
        }
        engine.db().forget_plugin(&person.account, &app, &id)?;
        engine.plugins_changed(&person.account, &app);
        Ok(())
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn changed(State(engine): State<Engine>, person: Person, Path(named): Path<Named>) -> Answer<Json<Value>> {
    let (app, id) = named.read()?;
    let answer = blocking(move || -> Answer<Value> {
        let plugin = engine.workspace(&person.account)?.plugin(&app, &id).map_err(missing)?;
        let before = engine.db().kept_code(&person.account, &app, &id)?;
        let now = [
            ("manifest.json", &*plugin.manifest_text),
            ("plugin.js", &*plugin.source),
        ];
        let (hash, old) = before.map_or((None, Vec::new()), |(hash, files)| (Some(hash.to_hex()), files));
        let files = now.into_iter().map(|(path, text)| {
            let earlier = old
                .iter()
                .find(|(name, _)| name == path)
                .map_or("", |(_, text)| text.as_str());
            difference(path, earlier, text)
        });
        Ok(json!({"before": hash, "after": plugin.code.to_hex(), "files": files.collect::<Vec<_>>()}))
    })
    .await?;
    Ok(Json(answer))
}

#[derive(Deserialize)]
struct DataUpdate {
    from: String,
    to: String,
}

/// Lets an app's plugins bring their data from one version to another.
async fn data_update(
    State(engine): State<Engine>,
    person: Person,
    Path(app): Path<String>,
    Given(wanted): Given<DataUpdate>,
) -> Answer<Json<Value>> {
    let app = app_or_shelf(&app)?;
    Engine::check_version(&wanted.from)?;
    Engine::check_version(&wanted.to)?;
    engine.workspace(&person.account)?.plugins(&app).map_err(missing)?;
    let done = engine
        .app_updated(&person.account, &app, &wanted.from, &wanted.to)
        .await?;
    let failed: Vec<Value> = done
        .iter()
        .filter_map(|one| Some(json!({"plugin": one.plugin, "error": one.error.as_ref()?})))
        .collect();
    Ok(Json(json!({"updated": done.len(), "failed": failed})))
}

#[derive(Deserialize)]
struct Called {
    method: String,
    path: String,
    #[serde(default)]
    query: Map<String, Value>,
    #[serde(default)]
    body: Value,
}

/// Asks one plugin's `handleRoute`, as its app's page would: for its author.
async fn call(
    State(engine): State<Engine>,
    person: Person,
    Context(context): Context,
    Path(named): Path<Named>,
    mut request: Request,
) -> Answer<Json<Value>> {
    DefaultBodyLimit::max(IMPORT_LIMIT).apply(&mut request);
    let Given(mut called) = Given::<Called>::from_request(request, &engine).await?;
    let (app, id) = named.read()?;
    let room = engine.room(&person.account)?;
    let plugin = room.workspace.plugin(&app, &id).map_err(missing)?;
    let of = Owned { app, plugin };
    if !engine.enabled(&person.account, &of.app, &of.plugin) {
        return Err(ApiError::forbidden("This plugin is turned off.").code("disabled"));
    }
    let refused =
        engine
            .plugins()
            .permissions()
            .check(&person.account, &of.app, &id, of.plugin.code, Capability::Routes);
    if let Err(why) = refused {
        return Err(ApiError::forbidden(format!("handleRoute {why}.")).code("permission"));
    }
    if !called.path.starts_with('/') {
        called.path.insert(0, '/');
    }
    let archive = take_archive(&mut called.body)?;
    let siblings = match called.query.get("siblingtools") {
        Some(given) if given == "1" => offered(&engine, &context, &person.account, &of).await,
        _ => Value::Null,
    };
    let trace = context.trace.as_str().to_owned();
    let request = RouteRequest {
        method: called.method.to_uppercase(),
        path: called.path,
        query: called.query,
        body: called.body,
    };
    match engine
        .plugins()
        .route(&room.target(&context, &of), &request, siblings, archive)
        .await
    {
        Ok(Some(answer)) => Ok(Json(json!({
            "answered": true, "status": answer.status, "contentType": answer.content_type,
            "text": String::from_utf8_lossy(&answer.body), "trace": trace,
        }))),
        Ok(None) => Ok(Json(json!({"answered": false, "trace": trace}))),
        Err(error) => {
            engine.note_failure(&context, &of, "handleRoute", &error);
            Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).code("plugin"))
        }
    }
}

/// The plugin named, if it is turned on and may offer tools.
fn with_tools(engine: &Engine, person: &Person, named: &Named) -> Answer<Owned> {
    let (app, id) = named.read()?;
    let plugin = engine.workspace(&person.account)?.plugin(&app, &id).map_err(missing)?;
    engine
        .plugins()
        .permissions()
        .check(&person.account, &app, &id, plugin.code, Capability::Tools)
        .map_err(|why| ApiError::forbidden(format!("Offering tools {why}.")).code("permission"))?;
    Ok(Owned { app, plugin })
}

/// The tools a plugin offers: to agents (`TOOLS`), and to the model requests of its app's other plugins (`appTools`).
async fn tools(
    State(engine): State<Engine>,
    person: Person,
    Context(context): Context,
    Path(named): Path<Named>,
) -> Answer<Json<Value>> {
    let of = with_tools(&engine, &person, &named)?;
    let room = engine.room(&person.account)?;
    let target = room.target(&context, &of);
    let broke = |error: PluginError| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).code("plugin");
    let fixed = engine.plugins().fixed_tools(&target).await.map_err(broke)?;
    let offered = engine.plugins().app_tools(&target, "").await.map_err(broke)?;
    Ok(Json(json!({"tools": fixed, "appTools": offered})))
}

#[derive(Deserialize)]
struct ToolPath {
    app: String,
    plugin: String,
    name: String,
}

#[derive(Deserialize)]
struct ToolArgs {
    #[serde(default)]
    args: Value,
}

/// Runs one tool, as a model would: for its author.
async fn run_tool(
    State(engine): State<Engine>,
    person: Person,
    Context(context): Context,
    Path(path): Path<ToolPath>,
    Given(given): Given<ToolArgs>,
) -> Answer<Json<Value>> {
    let named = Named {
        app: path.app,
        plugin: path.plugin,
    };
    let of = with_tools(&engine, &person, &named)?;
    let room = engine.room(&person.account)?;
    match engine
        .plugins()
        .tool(&room.target(&context, &of), &path.name, given.args)
        .await
    {
        Ok(answer) => Ok(Json(json!({"text": answer.text, "isError": answer.is_error}))),
        Err(error) => {
            engine.note_failure(&context, &of, "handleTool", &error);
            Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).code("plugin"))
        }
    }
}

/// A secret on its way in. No `Debug`: it must not be printed.
#[derive(Deserialize)]
struct SecretGiven {
    value: String,
    origin: String,
}

#[derive(Deserialize)]
struct SecretPath {
    plugin: String,
    name: String,
}

/// How the vault names a plugin's secret.
fn secret_id(account: &AccountId, app: &AppId, plugin: &PluginId, name: &str) -> Answer<String> {
    secrets::plugin_secret_id(account, app, plugin, name)
        .ok_or_else(|| ApiError::bad("A secret's name has 1 to 64 letters a-z, digits, - and _."))
}

async fn put_secret(
    State(engine): State<Engine>,
    person: Person,
    Path(path): Path<SecretPath>,
    Given(given): Given<SecretGiven>,
) -> Answer<Json<Value>> {
    let (app, id) = global(&path.plugin)?;
    let key = secret_id(&person.account, &app, &id, &path.name)?;
    let text = given.value.trim().to_owned();
    if text.is_empty() || text.len() > SECRET_LIMIT {
        return Err(ApiError::bad(format!("A secret has 1 to {SECRET_LIMIT} bytes.")));
    }
    if text.chars().any(char::is_control) {
        return Err(ApiError::bad(
            "A secret has no line breaks or other control characters.",
        ));
    }
    let url = Url::parse(&given.origin).map_err(|e| {
        ApiError::bad(format!(
            "The address the secret is for cannot be read ({e}): write https://host."
        ))
    })?;
    let origin = Origin::of(&url).map_err(|e| ApiError::bad(e.to_string()))?;
    let turn = engine.changing_keys().await;
    engine
        .workspace(&person.account)?
        .plugin_exists(&app, &id)
        .map_err(missing)?;
    let vault = engine.vault().clone();
    let (db, account, name, shown) = (
        engine.db().clone(),
        person.account.clone(),
        path.name,
        origin.to_string(),
    );
    let kept = blocking(move || -> Answer<Store> {
        let _turn = turn;
        let kept = vault.put(&key, origin.clone(), Secret::from_bytes(text.into_bytes()))?;
        db.note_plugin_secret(&account, &app, &id, &name, &origin.to_string())?;
        Ok(kept)
    })
    .await?;
    Ok(Json(
        json!({"ok": true, "origin": shown, "forThisRunOnly": kept == Store::Run}),
    ))
}

async fn delete_secret(
    State(engine): State<Engine>,
    person: Person,
    Path(path): Path<SecretPath>,
) -> Answer<StatusCode> {
    let (app, id) = global(&path.plugin)?;
    blocking(move || {
        let _turn = engine.changing_keys_here();
        engine.drop_secret(&person.account, &app, &id, &path.name)
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

impl Engine {
    /// Deletes the secrets of all plugins of an app everywhere.
    pub(crate) fn drop_app_secrets(&self, account: &AccountId, app: &AppId) -> Answer<()> {
        for one in self.db().app_secrets(account, app)? {
            if let Ok(plugin) = PluginId::parse(&one.plugin) {
                self.drop_secret(account, app, &plugin, &one.name)?;
            }
        }
        Ok(())
    }

    /// Deletes a plugin's secret everywhere.
    fn drop_secret(&self, account: &AccountId, app: &AppId, plugin: &PluginId, name: &str) -> Answer<()> {
        self.vault().forget(&secret_id(account, app, plugin, name)?)?;
        self.db().forget_plugin_secret(account, app, plugin, name)?;
        Ok(())
    }
}

async fn budget(
    State(engine): State<Engine>,
    person: Person,
    Path(app): Path<String>,
    Given(given): Given<Map<String, Value>>,
) -> Answer<Json<Value>> {
    let app = app_or_shelf(&app)?;
    let answer = blocking(move || -> Answer<Value> {
        let configured = engine.config().budgets;
        let mut limits: UsageLimits = engine.db().budgets(&person.account, &app)?.unwrap_or(configured);
        for (name, value) in &given {
            let limit = match value {
                Value::Null => None,
                value => Some(value.as_u64().filter(|n| *n <= 1 << 50).ok_or_else(|| {
                    ApiError::bad(format!(
                        "\"{name}\" must be a whole number of at least 0, or null for no limit of its own."
                    ))
                })?),
            };
            match name.as_str() {
                "modelCalls" => limits.model_calls = limit,
                "tokens" => limits.tokens = limit,
                "networkBytes" => limits.network_bytes = limit,
                "diskBytes" => limits.disk_bytes = limit,
                other => {
                    return Err(ApiError::bad(format!(
                        "There is no budget \"{other}\": there are modelCalls, tokens, networkBytes and diskBytes."
                    )));
                }
            }
        }
        if !app.is_shelf() {
            engine.workspace(&person.account)?.app_folder(&app).map_err(missing)?;
        }
        engine.db().set_budgets(&person.account, &app, Some(&limits))?;
        usage(&engine, &person.account, &app)
    })
    .await?;
    Ok(Json(json!({"usage": answer})))
}

/// Ends everything an app has running: model answers, plugin calls, and its idle workers.
async fn stop(
    State(engine): State<Engine>,
    person: Person,
    Context(context): Context,
    Path(app): Path<String>,
) -> Answer<Json<Value>> {
    let app = app_or_shelf(&app)?;
    let (answers, calls) = engine.stop_running(&person.account, &app);
    engine.activity().stopped(&context, &app, answers + calls);
    Ok(Json(
        json!({"stopped": answers + calls, "answers": answers, "calls": calls}),
    ))
}
