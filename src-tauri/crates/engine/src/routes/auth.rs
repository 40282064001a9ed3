//! Health, first setup, signing in and out, and who one is.

use std::time::Instant;

use accounts::{
    SESSION_LIFETIME, SetupRefused, Token, Username, check_password, hash_password, session_cookie,
    session_cookie_ended, verify_or_dummy,
};
use axum::extract::State;
use axum::response::IntoResponse;
use axum::{Extension, Json};
use http::StatusCode;
use http::header::SET_COOKIE;
use policy::{AccountId, Callers, Condition};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::door::{Given, Person, Table};
use crate::error::{Answer, ApiError};
use crate::{Engine, Peer, SESSION_COOKIE, Session, blocking};

pub fn routes(table: Table) -> Table {
    let door = Callers::NOBODY.and(Callers::OWNER);
    table
        .route("GET", "/v1/health", Callers::ANYONE, Condition::Always, health)
        .route("GET", "/v1/auth/users", door, Condition::Always, users)
        .route("POST", "/v1/auth/setup", door, Condition::Always, setup)
        .route("POST", "/v1/auth/login", door, Condition::Always, login)
        .route("POST", "/v1/auth/logout", Callers::OWNER, Condition::Always, logout)
        .route("POST", "/v1/auth/rename", Callers::PERSON, Condition::Always, rename)
        .route("PUT", "/v1/auth/password", Callers::OWNER, Condition::Always, password)
        .route(
            "POST",
            "/v1/auth/reset-password",
            Callers::COMMAND_LINE,
            Condition::Always,
            reset_password,
        )
        .route("GET", "/v1/me", Callers::PERSON, Condition::Always, me)
}

async fn health(State(engine): State<Engine>) -> Json<Value> {
    Json(json!({"ok": true, "version": crate::VERSION, "instance": engine.instance()}))
}

async fn users(State(engine): State<Engine>) -> Answer<Json<Value>> {
    let open = engine.setup_token().is_some();
    // Before setup the owner has no name of their own yet.
    let users = if open { Vec::new() } else { engine.db().usernames()? };
    Ok(Json(json!({"users": users, "setup": open})))
}

#[derive(Deserialize)]
struct Setup {
    token: String,
    username: String,
    password: String,
}

#[derive(Deserialize)]
struct Login {
    username: String,
    password: String,
}

fn username(text: &str) -> Answer<Username> {
    Username::parse(text).map_err(|e| ApiError::bad(e.to_string()))
}

async fn hashed(password: String) -> Answer<String> {
    check_password(&password).map_err(|e| ApiError::bad(e.to_string()))?;
    blocking(move || hash_password(&password))
        .await
        .map_err(|e| ApiError::bad(e.to_string()))
}

/// Starts a session and answers with its cookie.
async fn signed_in(engine: &Engine, account: &AccountId, name: &str) -> Answer {
    let token = Token::random();
    let (db, owner, digest) = (engine.db().clone(), account.clone(), token.digest());
    blocking(move || db.add_session(digest.to_hex().as_bytes(), &owner, SESSION_LIFETIME.as_millis() as i64)).await?;
    let cookie = session_cookie(SESSION_COOKIE, &token, false);
    Ok(([(SET_COOKIE, cookie)], Json(json!({"ok": true, "username": name}))).into_response())
}

async fn setup(State(engine): State<Engine>, Given(given): Given<Setup>) -> Answer {
    let claim = engine
        .setup()
        .ok_or_else(|| ApiError::conflict(SetupRefused::Done.to_string()))?;
    // The token first: whoever does not have it learns nothing about names or passwords.
    let claim = claim.claim(&given.token).map_err(|refused| match refused {
        SetupRefused::Wrong => {
            engine.refused(&policy::Caller::Nobody, "POST /v1/auth/setup", "wrong setup token");
            ApiError::forbidden(refused.to_string())
        }
        SetupRefused::Done => ApiError::conflict(refused.to_string()),
    })?;
    let name = username(&given.username)?;
    let hash = hashed(given.password).await?;
    let (db, owner, text) = (engine.db().clone(), engine.owner(), name.as_str().to_owned());
    if !blocking(move || db.set_first_password(&owner, &text, &hash)).await? {
        return Err(ApiError::conflict(SetupRefused::Done.to_string()));
    }
    claim.spend();
    signed_in(&engine, &engine.owner(), name.as_str()).await
}

async fn login(State(engine): State<Engine>, peer: Option<Extension<Peer>>, Given(given): Given<Login>) -> Answer {
    let address = peer.map_or(std::net::Ipv4Addr::LOCALHOST.into(), |Extension(Peer(address))| address);
    engine
        .throttle()
        .begin(&given.username, address, Instant::now())
        .map_err(|locked| ApiError::new(StatusCode::TOO_MANY_REQUESTS, locked.to_string()).code("throttled"))?;
    let found = engine.db().account_by_name(&given.username)?;
    let hash = found.as_ref().and_then(|a| a.password.clone());
    let password = given.password;
    // The same work whether or not there is such a person.
    let right = blocking(move || verify_or_dummy(&password, hash.as_deref())).await;
    let Some(account) = found.filter(|_| right) else {
        engine.refused(&policy::Caller::Nobody, "POST /v1/auth/login", "wrong name or password");
        return Err(ApiError::new(StatusCode::UNAUTHORIZED, "Wrong name or password."));
    };
    engine.throttle().succeeded(&given.username, address);
    signed_in(&engine, &account.id, &account.username).await
}

async fn logout(State(engine): State<Engine>, session: Option<Extension<Session>>) -> Answer {
    if let Some(Extension(session)) = session {
        engine.end_session(&session).await?;
    }
    let cookie = session_cookie_ended(SESSION_COOKIE, false);
    Ok(([(SET_COOKIE, cookie)], Json(json!({"ok": true}))).into_response())
}

#[derive(Deserialize)]
struct Rename {
    username: String,
    password: Option<String>,
}

async fn rename(State(engine): State<Engine>, person: Person, Given(given): Given<Rename>) -> Answer<Json<Value>> {
    let name = username(&given.username)?;
    let account = account(&engine, &person.account)?;
    if let Some(hash) = account.password {
        let password = given.password.unwrap_or_default();
        if !blocking(move || accounts::verify(&password, &hash)).await {
            return Err(ApiError::forbidden(
                "The password is not right; the name was not changed.",
            ));
        }
    }
    let (db, text) = (engine.db().clone(), name.as_str().to_owned());
    blocking(move || db.rename_account(&person.account, &text)).await?;
    Ok(Json(json!({"ok": true, "username": name.as_str()})))
}

fn account(engine: &Engine, id: &AccountId) -> Answer<db::AccountRow> {
    engine
        .db()
        .account(id)?
        .ok_or_else(|| ApiError::missing("This account is gone."))
}

#[derive(Deserialize)]
struct Password {
    current: String,
    next: String,
}

async fn password(
    State(engine): State<Engine>,
    person: Person,
    session: Option<Extension<Session>>,
    Given(given): Given<Password>,
) -> Answer<Json<Value>> {
    let Some(hash) = account(&engine, &person.account)?.password else {
        return Err(ApiError::conflict(
            "There is no password yet: open the setup link that `chrysalis serve` prints.",
        ));
    };
    if !blocking(move || accounts::verify(&given.current, &hash)).await {
        return Err(ApiError::forbidden(
            "The current password is not right; nothing was changed.",
        ));
    }
    let next = hashed(given.next).await?;
    let keep = session.map(|Extension(session)| session.id);
    engine.replace_password(&person.account, next, keep).await?;
    Ok(Json(json!({"ok": true})))
}

/// For the command line: sets the password of `username` without the old one, and ends every session.
async fn reset_password(State(engine): State<Engine>, Given(given): Given<Login>) -> Answer<Json<Value>> {
    let Some(account) = engine.db().account_by_name(&given.username)? else {
        let names = engine.db().usernames()?.join(", ");
        return Err(ApiError::missing(format!(
            "There is nobody called \"{}\" here. Known: {names}.",
            given.username
        )));
    };
    let hash = hashed(given.password).await?;
    engine.replace_password(&account.id, hash, None).await?;
    engine.close_setup();
    Ok(Json(json!({"ok": true, "username": account.username})))
}

async fn me(State(engine): State<Engine>, person: Person) -> Answer<Json<Value>> {
    let account = account(&engine, &person.account)?;
    Ok(Json(json!({
        "username": account.username, "role": account.role, "createdAt": account.created_at,
        "hasPassword": account.password.is_some(), "hasAvatar": false,
    })))
}
