//! Apps on disk: manifests, what is installed, what a page may load, and what `host.*` does for plugins.

pub mod budget;
pub mod code;
pub mod host;
pub mod manifest;
pub mod media;
pub mod pages;
pub mod permission;
pub mod plugin_call;
pub mod route;
pub mod stage;
pub mod workspace;
