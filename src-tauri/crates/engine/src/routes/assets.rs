//! Pictures, sounds and files that apps and people store, named by the hash of their bytes.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::response::IntoResponse;
use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderValue};
use policy::{AccountId, AppId, Caller, Callers, Condition};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::door::{Asked, Asker, Table};
use crate::error::{Answer, ApiError};
use crate::routes::inert;
use crate::{Engine, blocking};

pub fn routes(table: Table) -> Table {
    let own = Callers::PERSON_OR_APP;
    table
        .route("GET", "/v1/assets", own, Condition::OwnRecords, list)
        .route("PUT", "/v1/assets", own, Condition::OwnRecords, put)
        .route("GET", "/v1/assets/{id}", own, Condition::OwnRecords, get)
}

/// Bytes of one asset and of all of an account's (contract section 6).
const ONE: usize = 64 << 20;
const ALL: u64 = 2 << 30;
/// Assets of an account. Each is a file, and every list names all: an app must not make millions of one byte.
const MOST: usize = 10_000;

fn viewer(caller: &Caller) -> Option<&AppId> {
    caller.app()
}

async fn list(State(engine): State<Engine>, asker: Asker) -> Answer<Json<Value>> {
    Ok(Json(
        json!({"assets": engine.db().assets(&asker.account, viewer(&asker.caller))?}),
    ))
}

#[derive(Deserialize)]
struct Named {
    name: Option<String>,
}

async fn put(
    State(engine): State<Engine>,
    asker: Asker,
    Asked(named): Asked<Named>,
    request: Request,
) -> Answer<Json<Value>> {
    let (parts, body) = request.into_parts();
    let mime = parts
        .headers
        .get(CONTENT_TYPE)
        .and_then(|v| v.to_str().ok())
        .unwrap_or("application/octet-stream");
    let mime: String = mime.chars().filter(|c| !c.is_control()).take(100).collect();
    let name: String = named
        .name
        .unwrap_or_default()
        .chars()
        .filter(|c| !c.is_control())
        .take(255)
        .collect();
    let bytes = axum::body::to_bytes(body, ONE).await.map_err(|_| {
        ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "An asset has at most 64 MiB, or the upload broke off.",
        )
    })?;
    let app = viewer(&asker.caller).cloned();
    let row = store(&engine, asker.account, app, mime, name, bytes).await?;
    Ok(Json(json!(row)))
}

/// Keeps bytes as an asset that `app` sees, or without one the person. The first type and name of the same bytes stay.
pub(crate) async fn store(
    engine: &Engine,
    account: AccountId,
    app: Option<AppId>,
    mime: String,
    name: String,
    bytes: Bytes,
) -> Answer<db::AssetRow> {
    let engine = engine.clone();
    blocking(move || {
        let id = hex::encode(Sha256::digest(&bytes));
        let folder = folder(&engine, &account)?;
        if engine.db().asset(&account, None, &id)?.is_none() {
            let (count, stored) = engine.db().asset_totals(&account)?;
            room(count, stored, bytes.len() as u64)?;
            folder
                .replace(&id, &bytes)
                .map_err(|e| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, e.to_string()))?;
        }
        let size = bytes.len() as u64;
        Ok(engine.db().add_asset(&account, app.as_ref(), &id, &mime, &name, size)?)
    })
    .await
}

/// Refuses what costs money to make while there is no room to keep it: `most` bytes must fit.
pub(crate) fn has_room(engine: &Engine, account: &AccountId, most: u64) -> Answer<()> {
    let (count, stored) = engine.db().asset_totals(account)?;
    room(count, stored, most)
}

/// Whether one more asset of `size` bytes fits beside `count` of `bytes` bytes.
fn room(count: usize, bytes: u64, size: u64) -> Answer<()> {
    let full = |message: String| Err(ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, message).code("quota"));
    if count >= MOST {
        return full(format!("There are at most {MOST} assets, and as many are here."));
    }
    if bytes.saturating_add(size) > ALL {
        return full("All assets together have at most 2 GiB. Delete some first.".into());
    }
    Ok(())
}

fn folder(engine: &Engine, account: &AccountId) -> Answer<files::Folder> {
    let path = engine.home().join("accounts").join(account.as_str()).join("assets");
    files::Folder::create_ambient(&path).map_err(|e| ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, e.to_string()))
}

/// An asset's record and bytes, if `app` (any app, where there is none) may see it. Another app's asset and one that does
/// not exist look the same.
pub(crate) async fn stored(
    engine: &Engine,
    account: &AccountId,
    app: Option<&AppId>,
    id: &str,
) -> Answer<(db::AssetRow, Vec<u8>)> {
    let missing = || ApiError::missing("There is no such asset.");
    let row = engine.db().asset(account, app, id)?.ok_or_else(missing)?;
    let (engine, account, name) = (engine.clone(), account.clone(), row.id.clone());
    let bytes = blocking(move || -> Answer<Vec<u8>> {
        folder(&engine, &account)?
            .read(&name, ONE as u64)
            .map_err(|e| ApiError::missing(e.to_string()))
    })
    .await?;
    Ok((row, bytes))
}

async fn get(State(engine): State<Engine>, asker: Asker, Path(id): Path<String>) -> Answer {
    let (row, bytes) = stored(&engine, &asker.account, viewer(&asker.caller), &id).await?;
    let kind = row
        .mime
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    let shown = ["image/", "audio/", "video/", "font/"]
        .iter()
        .any(|k| kind.starts_with(k))
        || kind == "text/plain";
    let kind = HeaderValue::from_str(&row.mime).unwrap_or(HeaderValue::from_static("application/octet-stream"));
    let disposition = HeaderValue::from_static(if shown { "inline" } else { "attachment" });
    let headers = inert(kind, "private, max-age=31536000, immutable");
    Ok((headers, [(CONTENT_DISPOSITION, disposition)], Body::from(bytes)).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_bytes_nor_files_without_end() {
        assert!(room(MOST - 1, ALL - 5, 5).is_ok());
        for (count, bytes, size) in [(MOST, 0, 0), (0, ALL, 1), (0, u64::MAX, 1)] {
            let refused = room(count, bytes, size).unwrap_err();
            assert_eq!(
                (refused.status, refused.code),
                (StatusCode::PAYLOAD_TOO_LARGE, Some("quota"))
            );
        }
    }
}
