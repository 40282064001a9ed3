//! Finds the model servers that run on this machine.

use std::time::Duration;

use futures::future::join_all;
use net::Net;
use policy::CallContext;
use serde::Serialize;
use serde_json::Value;
use url::Url;

use crate::models::beside::Asker;
use crate::models::list;
use crate::{Api, Endpoint, Limits, ModelList, Preset, ProviderError, ProviderErrorKind, presets};

/// A server that answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Found {
    /// Which one it is, where it told; else every preset with this port, since a port alone does not say it.
    pub presets: Vec<Preset>,
    pub base_url: String,
    /// Empty if it wants a key first.
    pub list: ModelList,
    pub wants_key: bool,
}

/// How long all of it may take. A server on this machine answers in a few milliseconds.
const PATIENCE: Duration = Duration::from_millis(800);

/// Which of the local [`presets`] run on this machine. Asks all of them at once, without any key, and takes at most about
/// 800 ms. Programs that answer but have no model list are left out.
pub async fn probe_local(ctx: &CallContext, net: &Net) -> Vec<Found> {
    probe(ctx, net, presets()).await
}

/// [`probe_local`] for the local ones among these, at their own addresses; where nothing listens there, at the same port
/// of `[::1]`.
pub async fn probe(ctx: &CallContext, net: &Net, presets: &[Preset]) -> Vec<Found> {
    let mut ports: Vec<u16> = Vec::new();
    for port in presets.iter().filter_map(|preset| preset.port) {
        if !ports.contains(&port) {
            ports.push(port);
        }
    }
    let ctx = ctx.clone().within(PATIENCE);
    let asked = ports.into_iter().map(|port| {
        let here: Vec<Preset> = presets
            .iter()
            .copied()
            .filter(|preset| preset.port == Some(port))
            .collect();
        probe_port(&ctx, net, here)
    });
    join_all(asked).await.into_iter().flatten().collect()
}

async fn probe_port(ctx: &CallContext, net: &Net, here: Vec<Preset>) -> Option<Found> {
    let first = *here.first()?;
    let mut url = Url::parse(first.base_url).ok()?;
    let mut answer = asked(ctx, net, first.api, &url).await;
    if matches!(&answer, Err(error) if error.never_sent) {
        url.set_host(Some("[::1]")).ok()?;
        answer = asked(ctx, net, first.api, &url).await;
    }
    let (mut list, mut wants_key) = answer.ok()?;
    let told = identify(ctx, net, first.api, &url).await;
    // Aphrodite is made from vLLM and has its signs: its port tells.
    let told = told.filter(|id| *id != "vllm" || here.iter().all(|preset| preset.id != "aphrodite"));
    let presets = match told {
        Some(id) => (here.iter().chain(presets()))
            .find(|preset| preset.id == id)
            .map_or(here.clone(), |preset| vec![*preset]),
        None => here,
    };
    let told = *presets.first()?;
    if told.api != first.api {
        // It has a list in its own format, too.
        url.set_path(Url::parse(told.base_url).ok()?.path());
        (list, wants_key) = asked(ctx, net, told.api, &url).await.unwrap_or((list, wants_key));
    }
    Some(Found {
        presets,
        base_url: url.as_str().trim_end_matches('/').to_owned(),
        list,
        wants_key,
    })
}

/// The list, and whether a key is wanted for it.
async fn asked(ctx: &CallContext, net: &Net, api: Api, url: &Url) -> Result<(ModelList, bool), ProviderError> {
    match list(ctx, net, &endpoint(api, url), "probe").await {
        Ok(list) => Ok((list, false)),
        Err(error) if error.kind == ProviderErrorKind::Key => Ok((ModelList::default(), true)),
        Err(error) => Err(error),
    }
}

fn endpoint(api: Api, url: &Url) -> Endpoint {
    let mut endpoint = Endpoint::new("probe", "probe", url.clone());
    endpoint.api = api;
    endpoint.limits = Limits {
        connect: PATIENCE,
        first_byte: PATIENCE,
        idle: PATIENCE,
        max_bytes: 16 << 20,
    };
    endpoint
}

/// A page below a server's root that only one of the programs has.
struct Sign {
    id: &'static str,
    page: &'static str,
    is: fn(&Value) -> bool,
}

/// The more telling ones first: KoboldCpp has the pages of Ollama and llama.cpp as well, and many have a `/version`.
const SIGNS: [Sign; 9] = [
    Sign {
        id: "koboldcpp",
        page: "api/extra/version",
        is: |answer| answer.get("result").is_some_and(|name| name == "KoboldCpp"),
    },
    Sign {
        id: "lm-studio",
        page: "api/v0/models",
        is: |answer| {
            answer
                .pointer("/data/0")
                .is_some_and(|model| model.get("state").is_some())
        },
    },
    Sign {
        id: "litellm",
        page: "health/readiness",
        is: |answer| answer.get("litellm_version").is_some(),
    },
    Sign {
        id: "tabbyapi",
        page: "health",
        is: |answer| answer.get("issues").is_some_and(Value::is_array),
    },
    Sign {
        id: "tabbyapi",
        page: "v1/model",
        is: |answer| {
            answer
                .get("parameters")
                .is_some_and(|about| about.get("max_seq_len").is_some())
        },
    },
    Sign {
        id: "textgen",
        page: "v1/internal/model/info",
        is: |answer| answer.get("model_name").is_some(),
    },
    Sign {
        id: "llama-cpp",
        page: "props",
        is: |answer| answer.get("default_generation_settings").is_some(),
    },
    Sign {
        id: "ollama",
        page: "api/version",
        is: has_version,
    },
    Sign {
        id: "vllm",
        page: "version",
        is: has_version,
    },
];

fn has_version(answer: &Value) -> bool {
    answer.get("version").is_some_and(Value::is_string)
}

/// Which program it is, if it says so in time.
async fn identify(ctx: &CallContext, net: &Net, api: Api, url: &Url) -> Option<&'static str> {
    let endpoint = endpoint(api, url);
    let asker = Asker {
        ctx,
        net,
        endpoint: &endpoint,
        purpose: "probe",
    };
    let answers = join_all(SIGNS.iter().map(|sign| asker.get(sign.page))).await;
    let told = SIGNS.iter().zip(answers);
    told.filter_map(|(sign, answer)| (sign.is)(&answer?).then_some(sign.id))
        .next()
}
