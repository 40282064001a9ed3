use std::time::Duration;

use futures::future::join_all;
use net::Net;
use policy::CallContext;
use serde::Serialize;
use url::Url;

use crate::models::list;
use crate::{Api, Endpoint, Limits, ModelList, ProviderErrorKind};

/// A model server people run on their own machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preset {
    pub id: &'static str,
    pub name: &'static str,
    pub api: Api,
    pub base_url: &'static str,
    /// Runs on people's own machines.
    pub local: bool,
    /// Where its keys are made.
    pub key_page: Option<&'static str>,
    /// The port it listens on unless told otherwise (contract section 8).
    pub port: u16,
}

const PRESETS: &[Preset] = &[
    preset("ollama", "Ollama", 11434, "http://127.0.0.1:11434/v1"),
    preset("lm-studio", "LM Studio", 1234, "http://127.0.0.1:1234/v1"),
    preset("llama-cpp", "llama.cpp", 8080, "http://127.0.0.1:8080/v1"),
    preset("koboldcpp", "KoboldCpp", 5001, "http://127.0.0.1:5001/v1"),
    preset("vllm", "vLLM", 8000, "http://127.0.0.1:8000/v1"),
    preset("textgen", "text-generation-webui", 5000, "http://127.0.0.1:5000/v1"),
    preset("tabbyapi", "TabbyAPI", 5000, "http://127.0.0.1:5000/v1"),
    preset("aphrodite", "Aphrodite", 2242, "http://127.0.0.1:2242/v1"),
    preset("litellm", "LiteLLM", 4000, "http://127.0.0.1:4000/v1"),
];

const fn preset(id: &'static str, name: &'static str, port: u16, base_url: &'static str) -> Preset {
    Preset {
        id,
        name,
        api: Api::OpenaiCompletions,
        base_url,
        local: true,
        key_page: None,
        port,
    }
}

/// Servers that [`probe_local`] looks for, in the order to show them.
pub fn presets() -> &'static [Preset] {
    PRESETS
}

/// A server that answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Found {
    /// Every preset with this port: the port does not say which one it is.
    pub presets: Vec<Preset>,
    pub base_url: String,
    /// Empty if it wants a key first.
    pub list: ModelList,
    pub wants_key: bool,
}

/// How long each server has to answer. One on this machine does so in a few milliseconds.
const PATIENCE: Duration = Duration::from_millis(800);

/// Which of [`presets`] run on this machine. Asks all of them at once and takes at most about 800 ms. Programs that
/// answer but have no model list are left out.
pub async fn probe_local(ctx: &CallContext, net: &Net) -> Vec<Found> {
    probe(ctx, net, PRESETS).await
}

/// [`probe_local`] for these servers only.
pub async fn probe(ctx: &CallContext, net: &Net, presets: &[Preset]) -> Vec<Found> {
    let mut ports: Vec<u16> = Vec::new();
    for preset in presets {
        if !ports.contains(&preset.port) {
            ports.push(preset.port);
        }
    }
    let ctx = ctx.clone().within(PATIENCE);
    let asked = ports.into_iter().map(|port| {
        let here: Vec<Preset> = presets.iter().copied().filter(|preset| preset.port == port).collect();
        probe_one(&ctx, net, here)
    });
    join_all(asked).await.into_iter().flatten().collect()
}

async fn probe_one(ctx: &CallContext, net: &Net, presets: Vec<Preset>) -> Option<Found> {
    let base_url = presets.first()?.base_url.to_owned();
    let mut endpoint = Endpoint::new("probe", presets.first()?.name, Url::parse(&base_url).ok()?);
    endpoint.limits = Limits {
        connect: PATIENCE,
        first_byte: PATIENCE,
        idle: PATIENCE,
        max_bytes: 16 << 20,
    };
    let (list, wants_key) = match list(ctx, net, &endpoint, "probe").await {
        Ok(list) => (list, false),
        Err(error) if error.kind == ProviderErrorKind::Key => (ModelList::default(), true),
        Err(_) => return None,
    };
    Some(Found {
        presets,
        base_url,
        list,
        wants_key,
    })
}
