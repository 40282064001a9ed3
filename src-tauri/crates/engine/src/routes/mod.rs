//! The routes of `/v1`, one module per resource.

mod activity;
mod app_files;
mod apps;
pub(crate) mod assets;
mod audio;
mod auth;
mod connections;
mod embeddings;
mod events;
mod images;
mod keys;
mod model_settings;
mod models;
mod pages;
mod plugins;
mod prompt_formats;
mod providers;
mod settings;
mod spend;

use axum::Router;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS,
};
use policy::Access;

use crate::Engine;
use crate::door::Table;

pub(crate) use keys::trouble as key_trouble;
pub(crate) use plugins::app_or_shelf;

/// Headers of what an app, a plugin or the network made: whatever type it claims, a browser that shows it runs and loads
/// nothing.
fn inert(kind: HeaderValue, cache: &'static str) -> [(HeaderName, HeaderValue); 4] {
    [
        (CONTENT_TYPE, kind),
        (
            CONTENT_SECURITY_POLICY,
            HeaderValue::from_static("sandbox; default-src 'none'"),
        ),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (CACHE_CONTROL, HeaderValue::from_static(cache)),
    ]
}

/// The router and the access table, made by one registration.
pub fn build(engine: &Engine) -> (Router<Engine>, Vec<Access>) {
    let table = Table::new(engine.clone());
    let table = auth::routes(table);
    let table = settings::routes(table);
    let table = connections::routes(table);
    let table = keys::routes(table);
    let table = providers::routes(table);
    let table = models::routes(table);
    let table = prompt_formats::routes(table);
    let table = model_settings::routes(table);
    let table = images::routes(table);
    let table = audio::routes(table);
    let table = embeddings::routes(table);
    let table = spend::routes(table);
    let table = apps::routes(table);
    let table = plugins::routes(table);
    let table = app_files::routes(table);
    let table = pages::routes(table);
    let table = assets::routes(table);
    let table = events::routes(table);
    let table = activity::routes(table);
    table.finish()
}
