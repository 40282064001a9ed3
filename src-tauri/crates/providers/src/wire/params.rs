//! What of `presetParams.params` reaches a provider. They are passed on as they are, except for what would do more than
//! shape the answer: whoever may ask a model has no permission to let the provider search, fetch, run or remember
//! something, and a named model is never swapped for another.

use serde_json::{Map, Value};

/// Names of all formats and of the services known to take them, as [`plain`] makes them. A name of one format is refused
/// in each: gateways take several, and translate.
const REFUSED: [&str; 82] = [
    // The request itself: the model somebody chose, the conversation, how it is answered.
    "model",
    "models",
    "modelid",
    "engine",
    "deployment",
    "deploymentid",
    "fallback",
    "fallbacks",
    "fallbackmodels",
    "route",
    "router",
    "contextwindowfallbackdict",
    "messages",
    "input",
    "contents",
    "prompt",
    "promptid",
    "inputids",
    "promptembeds",
    "system",
    "systemprompt",
    "systeminstruction",
    "instructions",
    "chattemplate",
    "stream",
    "streamoptions",
    // Tools, which need a permission of their own; also those that the provider runs itself.
    "tools",
    "toolchoice",
    "toolconfig",
    "toolresources",
    "functions",
    "functioncall",
    "functiondeclarations",
    "mcp",
    "mcpservers",
    "plugins",
    "skills",
    "connectors",
    "agent",
    "agents",
    "agentid",
    "container",
    "codeexecution",
    "compoundcustom",
    "guardrails",
    // Looking something up elsewhere: OpenAI, OpenRouter, xAI, Perplexity, Groq, Qwen, Cohere, Azure and their followers.
    "websearch",
    "websearchoptions",
    "enablewebsearch",
    "search",
    "searchparameters",
    "searchoptions",
    "searchsettings",
    "searchmode",
    "enablesearch",
    "enablecitations",
    "grounding",
    "googlesearch",
    "retrieval",
    "rag",
    "datasources",
    "documents",
    "files",
    "fileids",
    "attachments",
    // What the provider keeps, of this app or another.
    "store",
    "background",
    "conversation",
    "conversationid",
    "previousresponseid",
    "previousinteractionid",
    "cachedcontent",
    // Where a gateway sends it, and as whom: LiteLLM and its like read these from a body.
    "apibase",
    "baseurl",
    "apikey",
    "apiversion",
    "customllmprovider",
    "extrabody",
    "extraheaders",
    "headers",
    "proxy",
    "callbackurl",
    "webhookurl",
];

/// How often a thing may be answered: only one answer is read, and each is paid.
const SEVERAL: [&str; 4] = ["n", "bestof", "candidatecount", "numreturnsequences"];

/// A name as the most lenient server reads it: `Tool_Choice`, `toolChoice` and `tool-choice` are one. Servers written in
/// Go take names without regard to case, and to them `ſ` is an `s` and the sign for kelvin a `k`.
fn plain(name: &str) -> String {
    let letters = name.chars().filter(|c| !matches!(c, '_' | '-' | '.' | ' '));
    letters
        .flat_map(char::to_lowercase)
        .map(|c| if c == 'ſ' { 's' } else { c })
        .collect()
}

/// Whether an entry asks for more than one answer.
pub(super) fn asks_for_several(name: &str) -> bool {
    SEVERAL.contains(&plain(name).as_str())
}

/// The entries that are passed on; `own` are those that a format has for itself.
pub(super) fn passed_on(params: &Map<String, Value>, own: &[&str]) -> Vec<(String, Value)> {
    let own: Vec<String> = own.iter().map(|name| plain(name)).collect();
    let passes = |name: &str| {
        let plain = plain(name);
        !own.contains(&plain) && !REFUSED.contains(&plain.as_str()) && !asks_for_several(name)
    };
    let passed = params.iter().filter(|(name, _)| passes(name));
    passed.map(|(name, value)| (name.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::Api;
    use crate::wire::given::Given;

    /// Whatever format it is written for, and however it is spelled.
    #[test]
    fn nothing_that_fetches_calls_swaps_or_remembers() {
        let shapes = json!({"temperature": 0.5, "top_p": 0.9, "logit_bias": {"1": 2}, "repeat_penalty": 1.1});
        for smuggled in [
            "tools",
            "TOOLS",
            "Tool_Choice",
            "tool-config",
            "toolConfig",
            "toolſ",
            "Models",
            "models",
            "fallbacks",
            "route",
            "meſſages",
            "Messages",
            "MODEL",
            "mcp_servers",
            "mcpServers",
            "plugins",
            "web_search_options",
            "webSearchOptions",
            "search_parameters",
            "enable_search",
            "search_options",
            "search_settings",
            "compound_custom",
            "data_sources",
            "dataSources",
            "documents",
            "retrieval",
            "cachedContent",
            "cached_content",
            "previous_response_id",
            "PREVIOUS_RESPONSE_ID",
            "conversation",
            "store",
            "container",
            "api_base",
            "base_url",
            "api_\u{212a}ey",
            "extra_body",
            "extra_headers",
            "chat_template",
            "n",
            "N",
            "best_of",
            "candidateCount",
            "systemInstruction",
            "Stream",
            "prompt",
            "input",
            "System",
        ] {
            for api in Api::ALL {
                let with = |params: &serde_json::Value| {
                    let request = json!({"presetParams": {"params": params}});
                    Given::new(api.wire(), "some-model", request).body()
                };
                let mut more = shapes.clone();
                more[smuggled] = json!(["https://elsewhere.test/"]);
                assert_eq!(with(&more), with(&shapes), "{smuggled} as {}", api.name());
            }
        }
    }

    #[test]
    fn one_answer_is_asked_of_gemini_at_any_depth() {
        for config in ["generationConfig", "generation_config"] {
            let request =
                json!({"presetParams": {"params": {config: {"candidateCount": 8, "candidate_count": 8, "topK": 3}}}});
            let body = Given::new(Api::GoogleGenerativeAi.wire(), "gemini-2.0-flash", request).body();
            assert_eq!(body["generationConfig"], json!({"topK": 3}));
        }
    }
}
