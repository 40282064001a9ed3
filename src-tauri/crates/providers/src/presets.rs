//! The services and programs that are known by name: where they are and what they speak. Addresses are those of each
//! provider's public documentation, as of 2026.

use serde::Serialize;

use crate::Api;

/// A service, or a program people run on their own machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preset {
    /// Reserved: no connection of a person has such an id (theirs begin with `c_`).
    pub id: &'static str,
    pub name: &'static str,
    pub api: Api,
    pub base_url: &'static str,
    /// Runs on people's own machines.
    pub local: bool,
    /// Where its keys are made.
    pub key_page: Option<&'static str>,
    /// The port that a local one listens on unless told otherwise (contract section 8).
    pub port: Option<u16>,
}

/// All of them, those of other people's machines first, each group in the order to show it.
pub fn presets() -> &'static [Preset] {
    PRESETS
}

const fn hosted(
    id: &'static str,
    name: &'static str,
    api: Api,
    base_url: &'static str,
    key_page: &'static str,
) -> Preset {
    Preset {
        id,
        name,
        api,
        base_url,
        local: false,
        key_page: Some(key_page),
        port: None,
    }
}

const fn local(id: &'static str, name: &'static str, api: Api, port: u16, base_url: &'static str) -> Preset {
    Preset {
        id,
        name,
        api,
        base_url,
        local: true,
        key_page: None,
        port: Some(port),
    }
}

use Api::{
    AnthropicMessages as Messages, GoogleGenerativeAi as Gemini, Ollama, OpenaiCompletions as Chat,
    OpenaiResponses as Responses,
};

#[rustfmt::skip]
const PRESETS: &[Preset] = &[
    hosted("openai", "OpenAI", Chat, "https://api.openai.com/v1", "https://platform.openai.com/api-keys"),
    hosted("openai-responses", "OpenAI (Responses)", Responses, "https://api.openai.com/v1", "https://platform.openai.com/api-keys"),
    hosted("anthropic", "Anthropic", Messages, "https://api.anthropic.com/v1", "https://console.anthropic.com/settings/keys"),
    hosted("google", "Google Gemini", Gemini, "https://generativelanguage.googleapis.com/v1beta", "https://aistudio.google.com/apikey"),
    hosted("openrouter", "OpenRouter", Chat, "https://openrouter.ai/api/v1", "https://openrouter.ai/settings/keys"),
    hosted("deepseek", "DeepSeek", Chat, "https://api.deepseek.com/v1", "https://platform.deepseek.com/api_keys"),
    hosted("mistral", "Mistral", Chat, "https://api.mistral.ai/v1", "https://console.mistral.ai/api-keys"),
    hosted("groq", "Groq", Chat, "https://api.groq.com/openai/v1", "https://console.groq.com/keys"),
    hosted("xai", "xAI", Chat, "https://api.x.ai/v1", "https://console.x.ai"),
    hosted("together", "Together", Chat, "https://api.together.xyz/v1", "https://api.together.ai/settings/api-keys"),
    hosted("fireworks", "Fireworks", Chat, "https://api.fireworks.ai/inference/v1", "https://app.fireworks.ai/settings/users/api-keys"),
    hosted("aimlapi", "AI/ML API", Chat, "https://api.aimlapi.com/v1", "https://aimlapi.com/app/keys"),
    hosted("chutes", "Chutes", Chat, "https://llm.chutes.ai/v1", "https://chutes.ai/app/api"),
    hosted("cohere", "Cohere", Chat, "https://api.cohere.ai/compatibility/v1", "https://dashboard.cohere.com/api-keys"),
    hosted("cometapi", "CometAPI", Chat, "https://api.cometapi.com/v1", "https://api.cometapi.com/console/token"),
    hosted("deepinfra", "DeepInfra", Chat, "https://api.deepinfra.com/v1/openai", "https://deepinfra.com/dash/api_keys"),
    hosted("dreamgen", "DreamGen", Chat, "https://dreamgen.com/api/openai/v1", "https://dreamgen.com/account/api-keys"),
    hosted("electronhub", "Electron Hub", Chat, "https://api.electronhub.ai/v1", "https://playground.electronhub.ai/console"),
    hosted("featherless", "Featherless", Chat, "https://api.featherless.ai/v1", "https://featherless.ai/account/api-keys"),
    hosted("infermatic", "Infermatic", Chat, "https://api.totalgpt.ai/v1", "https://infermatic.ai"),
    hosted("nanogpt", "NanoGPT", Chat, "https://nano-gpt.com/api/v1", "https://nano-gpt.com/api"),
    hosted("nanogpt-subscription", "NanoGPT (subscription)", Chat, "https://nano-gpt.com/api/subscription/v1", "https://nano-gpt.com/api"),
    hosted("novita", "Novita", Chat, "https://api.novita.ai/openai/v1", "https://novita.ai/settings/key-management"),
    hosted("ollama-cloud", "Ollama Cloud", Ollama, "https://ollama.com", "https://ollama.com/settings/keys"),
    hosted("perplexity", "Perplexity", Chat, "https://api.perplexity.ai", "https://www.perplexity.ai/settings/api"),
    hosted("siliconflow", "SiliconFlow", Chat, "https://api.siliconflow.com/v1", "https://cloud.siliconflow.com/account/ak"),
    hosted("siliconflow-cn", "SiliconFlow (China)", Chat, "https://api.siliconflow.cn/v1", "https://cloud.siliconflow.cn/account/ak"),
    hosted("umans", "Umans", Messages, "https://api.code.umans.ai/v1", "https://app.umans.ai"),
    hosted("venice", "Venice", Chat, "https://api.venice.ai/api/v1", "https://venice.ai/settings/api"),
    hosted("zenmux", "ZenMux", Chat, "https://zenmux.ai/api/v1", "https://zenmux.ai/settings/keys"),
    local("ollama", "Ollama", Ollama, 11434, "http://127.0.0.1:11434"),
    local("lm-studio", "LM Studio", Chat, 1234, "http://127.0.0.1:1234/v1"),
    local("llama-cpp", "llama.cpp", Chat, 8080, "http://127.0.0.1:8080/v1"),
    local("koboldcpp", "KoboldCpp", Chat, 5001, "http://127.0.0.1:5001/v1"),
    local("vllm", "vLLM", Chat, 8000, "http://127.0.0.1:8000/v1"),
    local("textgen", "text-generation-webui", Chat, 5000, "http://127.0.0.1:5000/v1"),
    local("tabbyapi", "TabbyAPI", Chat, 5000, "http://127.0.0.1:5000/v1"),
    local("aphrodite", "Aphrodite", Chat, 2242, "http://127.0.0.1:2242/v1"),
    local("litellm", "LiteLLM", Chat, 4000, "http://127.0.0.1:4000/v1"),
];

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;
    use crate::{Endpoint, is_local};

    #[test]
    fn every_one_is_usable_as_it_stands() {
        for (at, preset) in PRESETS.iter().enumerate() {
            let id = preset.id;
            assert!(
                PRESETS[..at]
                    .iter()
                    .all(|other| other.id != id && other.name != preset.name),
                "{id} twice"
            );
            assert!(!id.starts_with("c_"), "{id} could be a person's");
            let url = Url::parse(preset.base_url).unwrap();
            assert_eq!(is_local(&url), preset.local, "{id}");
            assert_eq!(preset.port, url.port(), "{id}");
            match preset.key_page {
                Some(page) => assert!(
                    Url::parse(page).unwrap().scheme() == "https" && url.scheme() == "https",
                    "{id}"
                ),
                None => assert!(preset.local, "{id}"),
            }
            let mut endpoint = Endpoint::new("c", "c", url);
            endpoint.api = preset.api;
            // The first address asked is the one the provider documents.
            let documented = match (id, preset.api) {
                ("perplexity", _) => "https://api.perplexity.ai/v1/chat/completions".to_owned(),
                (_, Api::OpenaiCompletions) => format!("{}/chat/completions", preset.base_url),
                (_, Api::OpenaiResponses) => format!("{}/responses", preset.base_url),
                (_, Api::AnthropicMessages) => format!("{}/messages", preset.base_url),
                (_, Api::GoogleGenerativeAi) => {
                    format!("{}/models/MODEL:streamGenerateContent?alt=sse", preset.base_url)
                }
                (_, Api::Ollama) => format!("{}/api/chat", preset.base_url),
                (_, Api::OpenaiText) => format!("{}/completions", preset.base_url),
            };
            assert_eq!(endpoint.final_url(None), documented, "{id}");
        }
    }

    #[test]
    fn the_contracts_are_all_there() {
        let ids: Vec<&str> = PRESETS.iter().map(|preset| preset.id).collect();
        let wanted = "openai anthropic google openrouter deepseek mistral groq xai together fireworks aimlapi chutes cohere \
            cometapi deepinfra dreamgen electronhub featherless infermatic nanogpt nanogpt-subscription novita ollama-cloud \
            perplexity siliconflow siliconflow-cn umans venice zenmux ollama lm-studio llama-cpp koboldcpp vllm textgen \
            tabbyapi aphrodite litellm";
        for id in wanted.split_whitespace() {
            assert!(ids.contains(&id), "{id}");
        }
        let mut ports: Vec<u16> = PRESETS.iter().filter_map(|preset| preset.port).collect();
        ports.sort_unstable();
        assert_eq!(ports, [1234, 2242, 4000, 5000, 5000, 5001, 8000, 8080, 11434]);
    }
}
