//! Where keys are kept: shown, chosen, unlocked and locked. No key and no passphrase ever leaves by these routes.

use axum::Json;
use axum::extract::State;
use policy::{Callers, Condition};
use secrets::{Bound, KeyStatus, Secret, Standing, Store};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::OwnedMutexGuard;
use url::Url;

use crate::bus::Event;
use crate::door::{Given, Person, Table};
use crate::error::{Answer, ApiError};
use crate::{Engine, blocking};

/// What is said whenever a key was kept in memory only.
const FOR_THIS_RUN: &str = "This key is kept until Chrysalis ends and not saved. Where keys are kept can be \
                                       changed in Settings, Models.";

/// Longest passphrase, in bytes; what is longer was pasted by mistake.
const PASSPHRASE_LIMIT: usize = 1024;

pub fn routes(table: Table) -> Table {
    let (person, always) = (Callers::PERSON, Condition::Always);
    table
        .route("GET", "/v1/settings/keys", person, always, show)
        .route("PUT", "/v1/settings/keys", person, always, choose)
        .route("POST", "/v1/settings/keys/unlock", person, always, unlock)
        .route("POST", "/v1/settings/keys/lock", person, always, lock)
}

/// Why a key that is there is not used, in words for the person; `None` where it is used or there is none.
pub(crate) fn trouble(standing: &Standing) -> Option<String> {
    match standing {
        Standing::None | Standing::Ready(_) => None,
        Standing::Locked(Store::Keychain) => {
            Some("The key is in the keychain, which is locked or out of reach. Unlock it in Settings, Models.".into())
        }
        Standing::Locked(_) => Some(
            "The key is in the file of keys, which is locked. Unlock it with its passphrase in Settings, Models."
                .into(),
        ),
        Standing::Elsewhere(_, bound) => Some(format!(
            "The saved key is for {bound} and is not sent to this address. Enter the key again."
        )),
    }
}

/// A key on its way in. No `Debug`: it must not be printed.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct KeyText(String);

impl KeyText {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The place of a key, where there is one for this address.
pub(super) fn place(standing: &Standing) -> Option<&'static str> {
    match standing {
        Standing::Ready(store) | Standing::Locked(store) => Some(store.name()),
        Standing::None | Standing::Elsewhere(..) => None,
    }
}

/// Refuses what [`save`] would refuse, before anything else is changed.
pub(super) async fn check(engine: &Engine, key: &KeyText) -> Answer<()> {
    let (vault, key) = (engine.vault().clone(), Secret::new(key.0.clone()));
    Ok(blocking(move || vault.would_keep(&key)).await?)
}

/// Saves `key` under `id` for `address` and answers what to tell the person about where it is. The turn
/// ([`Engine::changing_keys`]) ends when it is saved, also where the asker went away before.
pub(super) async fn save(
    engine: &Engine,
    id: String,
    address: &str,
    key: KeyText,
    turn: OwnedMutexGuard<()>,
) -> Answer<Option<String>> {
    let url = Url::parse(address).map_err(|e| ApiError::bad(e.to_string()))?;
    let bound = Bound::of(&url).map_err(|e| ApiError::bad(e.to_string()))?;
    let vault = engine.vault().clone();
    let kept = blocking(move || {
        let _turn = turn;
        vault.put(&id, bound, Secret::new(key.0))
    })
    .await?;
    Ok((kept == Store::Run).then(|| FOR_THIS_RUN.to_owned()))
}

/// Forgets the key under `id` and answers what to tell the person where it could not be removed yet.
pub(super) async fn forget(engine: &Engine, id: String) -> Answer<Option<String>> {
    let vault = engine.vault().clone();
    Ok(blocking(move || vault.forget(&id)).await?)
}

/// A passphrase on its way in. No `Debug`: it must not be printed.
#[derive(Deserialize)]
#[serde(transparent)]
struct Passphrase(String);

impl Passphrase {
    fn checked(self) -> Answer<Secret> {
        let fits = self.0.len() <= PASSPHRASE_LIMIT;
        let secret = Secret::new(self.0);
        match fits {
            true => Ok(secret),
            false => Err(ApiError::bad(format!(
                "A passphrase has at most {PASSPHRASE_LIMIT} bytes."
            ))),
        }
    }
}

#[derive(Deserialize)]
struct Choice {
    store: String,
    passphrase: Option<Passphrase>,
    /// Deletes the keys in a locked file whose passphrase is forgotten.
    #[serde(default)]
    discard: bool,
}

#[derive(Deserialize)]
struct Unlock {
    passphrase: Option<Passphrase>,
}

/// The state with a sentence beside it where there is something to say.
fn answer(status: &KeyStatus, notice: Option<String>) -> Json<Value> {
    let mut answer = json!(status);
    if let Some(notice) = notice {
        answer["notice"] = notice.into();
    }
    Json(answer)
}

async fn status(engine: &Engine) -> KeyStatus {
    let vault = engine.vault().clone();
    blocking(move || vault.keys()).await
}

/// Lists were made without the keys, or with them.
fn changed(engine: &Engine, person: &Person) {
    engine.models_changed(&person.account);
    engine.bus().send(Event {
        account: person.account.clone(),
        app: None,
        kind: "connections_changed",
        payload: json!({"id": null}),
    });
}

async fn show(State(engine): State<Engine>, _person: Person) -> Json<Value> {
    answer(&status(&engine).await, None)
}

async fn choose(State(engine): State<Engine>, person: Person, Given(choice): Given<Choice>) -> Answer<Json<Value>> {
    let store = match choice.store.as_str() {
        "keychain" => Store::Keychain,
        "encrypted" => Store::Encrypted,
        "run" => Store::Run,
        "file" => Store::File,
        other => {
            let other: String = other.chars().take(40).collect();
            return Err(ApiError::bad(format!(
                "Keys are kept in \"keychain\", \"encrypted\" or \"run\", not in \"{other}\"."
            )));
        }
    };
    let passphrase = choice.passphrase.map(Passphrase::checked).transpose()?;
    let vault = engine.vault().clone();
    let discard = choice.discard;
    let notice = blocking(move || vault.choose(store, passphrase.as_ref(), discard)).await?;
    changed(&engine, &person);
    Ok(answer(&status(&engine).await, notice))
}

async fn unlock(State(engine): State<Engine>, person: Person, Given(given): Given<Unlock>) -> Answer<Json<Value>> {
    let passphrase = given.passphrase.map(Passphrase::checked).transpose()?;
    let vault = engine.vault().clone();
    blocking(move || vault.unlock(passphrase.as_ref())).await?;
    changed(&engine, &person);
    Ok(answer(&status(&engine).await, None))
}

async fn lock(State(engine): State<Engine>, person: Person) -> Answer<Json<Value>> {
    let vault = engine.vault().clone();
    blocking(move || vault.lock()).await;
    changed(&engine, &person);
    Ok(answer(&status(&engine).await, None))
}
