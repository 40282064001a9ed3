//! Recognises a format by the marks in a model's own template, or by the model's name.

use super::known::{self, Shape};

/// A template in any language (Jinja, Go): what counts are the marks in it. `None` where it has none that are known.
pub(super) fn by_template(template: &str) -> Option<&'static Shape> {
    let has = |mark: &str| template.contains(mark);
    let id = if has("<|start|>") && has("<|channel|>") {
        "harmony"
    } else if has("<|turn>") {
        "gemma4"
    } else if has("<|im_middle|>") {
        "kimi"
    } else if has("<|im_sep|>") {
        return Some(&known::PHI4);
    } else if has("<|im_start|>") {
        return match has("enable_thinking") && has("</think>") {
            true => Some(&known::CHATML_THINKING),
            false => known::by_id("chatml"),
        };
    } else if has("<|start_header_id|>") {
        "llama3"
    } else if has("<|header_start|>") {
        "llama4"
    } else if has("<start_of_turn>") {
        "gemma"
    } else if has("<|START_OF_TURN_TOKEN|>") {
        "command-r"
    } else if has("[gMASK]") || has("<sop>") {
        "glm4"
    } else if has("<｜Assistant｜>") {
        return deepseek(template);
    } else if has("[SYSTEM_PROMPT]") {
        match has("[SYSTEM_PROMPT] ") {
            true => "mistral-v7",
            false => "mistral-v7-tekken",
        }
    } else if has("[INST]") {
        match (has("<<SYS>>"), has("[INST] ")) {
            (true, _) => "llama2",
            (_, true) => "mistral-v2",
            _ => "mistral-v3-tekken",
        }
    } else if has("<|user|>") && has("<|end|>") {
        "phi"
    } else if has("<|user|>") && has("<|model|>") {
        "metharme"
    } else if has("<|user|>") && has("<|assistant|>") {
        "tulu"
    } else if has("### Instruction:") && has("### Response:") {
        "alpaca"
    } else if has("USER:") && has("ASSISTANT:") {
        "vicuna"
    } else {
        return None;
    };
    known::by_id(id)
}

/// The three kinds differ in what stands right after the mark of the answer.
fn deepseek(template: &str) -> Option<&'static Shape> {
    let lone_end = template.contains("{{'</think>'}}") || template.contains("<｜Assistant｜></think>");
    if lone_end {
        Some(&known::DEEPSEEK_HYBRID)
    } else if template.contains("<｜Assistant｜><think>") {
        Some(&known::DEEPSEEK_R1)
    } else {
        known::by_id("deepseek")
    }
}

/// What is in a name, in lower case and with `-` for every separator; the first that fits decides. What a model was made
/// into comes before what it was made of.
const HINTS: [(&str, &str); 58] = [
    ("gpt-oss", "harmony"),
    ("hermes", "chatml"),
    ("dolphin", "chatml"),
    ("tulu", "tulu"),
    ("olmo", "tulu"),
    ("metharme", "metharme"),
    ("pygmalion", "metharme"),
    ("vicuna", "vicuna"),
    ("wizardlm", "vicuna"),
    ("alpaca", "alpaca"),
    ("mythomax", "alpaca"),
    ("deepseek-r1", "deepseek-r1"),
    ("deepseek-v3-1", "deepseek-hybrid"),
    ("deepseek-v3-2", "deepseek-hybrid"),
    ("deepseek", "deepseek"),
    ("kimi", "kimi"),
    ("moonlight", "kimi"),
    ("command-r", "command-r"),
    ("command-a", "command-r"),
    ("c4ai", "command-r"),
    ("aya-expanse", "command-r"),
    ("llama-4", "llama4"),
    ("llama4", "llama4"),
    ("llama-3", "llama3"),
    ("llama3", "llama3"),
    ("llama-2", "llama2"),
    ("llama2", "llama2"),
    ("gemma-4", "gemma4"),
    ("gemma4", "gemma4"),
    ("gemma", "gemma"),
    ("pixtral-large", "mistral-v7"),
    ("mistral-large-2411", "mistral-v7"),
    ("mistral-nemo", "mistral-v3-tekken"),
    ("ministral", "mistral-v3-tekken"),
    ("pixtral", "mistral-v3-tekken"),
    ("mistral-small-2409", "mistral-v2"),
    ("mistral-small-22b", "mistral-v2"),
    ("mistral-small", "mistral-v7-tekken"),
    ("mistral-medium", "mistral-v7-tekken"),
    ("magistral", "mistral-v7-tekken"),
    ("devstral", "mistral-v7-tekken"),
    ("mixtral", "mistral-v2"),
    ("codestral", "mistral-v2"),
    ("mistral", "mistral-v2"),
    ("phi-4-mini", "phi"),
    ("phi4-mini", "phi"),
    ("phi-4", "phi-4"),
    ("phi4", "phi-4"),
    ("phi-3", "phi"),
    ("phi3", "phi"),
    ("glm-4", "glm4"),
    ("glm4", "glm4"),
    ("qwen", "chatml"),
    ("qwq", "chatml"),
    ("smollm", "chatml"),
    ("internlm", "chatml"),
    ("yi-1-5", "chatml"),
    ("chatml", "chatml"),
];

pub(super) fn by_name(model: &str) -> Option<&'static Shape> {
    let name: String = model
        .chars()
        .map(|letter| match letter {
            '_' | ' ' | '.' | ':' | '/' => '-',
            letter => letter.to_ascii_lowercase(),
        })
        .collect();
    let (_, id) = HINTS.iter().find(|(hint, _)| name.contains(hint))?;
    match *id {
        "deepseek-r1" => Some(&known::DEEPSEEK_R1),
        "deepseek-hybrid" => Some(&known::DEEPSEEK_HYBRID),
        "phi-4" => Some(&known::PHI4),
        id => known::by_id(id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_names_people_meet() {
        for (name, want) in [
            ("bartowski/Meta-Llama-3.1-8B-Instruct-GGUF", Some("llama3")),
            ("llama3.2:3b", Some("llama3")),
            ("Llama-4-Scout-17B-16E-Instruct", Some("llama4")),
            ("llama-2-7b-chat.Q4_K_M.gguf", Some("llama2")),
            ("koboldcpp/Mistral-Nemo-Instruct-2407-Q5_K_M", Some("mistral-v3-tekken")),
            ("mistral-small3.2:24b", Some("mistral-v7-tekken")),
            ("Mistral-Small-3.1-24B-Instruct-2503", Some("mistral-v7-tekken")),
            ("Mistral-Large-Instruct-2411", None),
            ("mistral-large-2411", Some("mistral-v7")),
            ("Mistral-7B-Instruct-v0.3", Some("mistral-v2")),
            ("mixtral:8x7b", Some("mistral-v2")),
            ("gemma3:12b", Some("gemma")),
            ("google/gemma-4-31B-it", Some("gemma4")),
            ("c4ai-command-r-08-2024", Some("command-r")),
            ("Phi-3.5-mini-instruct", Some("phi")),
            ("GLM-4-32B-0414", Some("glm4")),
            ("DeepSeek-R1-Distill-Llama-8B", Some("deepseek")),
            ("Kimi-K2-Instruct", Some("kimi")),
            ("gpt-oss:20b", Some("harmony")),
            ("Llama-3.1-Tulu-3-8B", Some("tulu")),
            ("pygmalion-2-13b", Some("metharme")),
            ("MythoMax-L2-13B", Some("alpaca")),
            ("vicuna-13b-v1.5", Some("vicuna")),
            ("Hermes-3-Llama-3.1-8B", Some("chatml")),
            ("Qwen3-8B", Some("chatml")),
            ("something-else", None),
            ("", None),
        ] {
            // Which of the many "mistral" formats an unknown one has is a guess, but there is one.
            let want = want.or(name.starts_with("Mistral").then_some("mistral-v2"));
            assert_eq!(by_name(name).map(|shape| shape.id), want, "{name}");
        }
    }

    #[test]
    fn every_hint_names_a_format_and_can_be_reached() {
        for (at, (hint, _)) in HINTS.iter().enumerate() {
            assert!(by_name(hint).is_some(), "{hint}");
            let first = HINTS.iter().position(|(other, _)| hint.contains(other));
            assert_eq!(first, Some(at), "{hint} is hidden behind another");
        }
    }

    #[test]
    fn by_marks_of_templates() {
        for (template, want) in [
            (
                "{% for m in messages %}{{'<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>'}}{% endfor %}",
                "chatml",
            ),
            (
                "{{ if .System }}<|im_start|>system\n{{ .System }}<|im_end|>{{ end }}",
                "chatml",
            ),
            (
                "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'",
                "llama3",
            ),
            ("<|header_start|>", "llama4"),
            ("{{ bos_token + '[INST] ' + '<<SYS>>\\n' }}", "llama2"),
            (
                "{{- '[SYSTEM_PROMPT]' + system_message + '[/SYSTEM_PROMPT]' }}",
                "mistral-v7-tekken",
            ),
            (
                "{{ '[SYSTEM_PROMPT] ' + content + '[/SYSTEM_PROMPT]' }}{{ '[INST] ' + content }}",
                "mistral-v7",
            ),
            (
                "{{- \"[INST]\" + message[\"content\"] + \"[/INST]\" }}",
                "mistral-v3-tekken",
            ),
            ("{{- \"[INST] \" + message[\"content\"] + \"[/INST]\" }}", "mistral-v2"),
            ("'<start_of_turn>' + role", "gemma"),
            ("{{- '<|turn>' + role + '\\n' }}", "gemma4"),
            ("<|START_OF_TURN_TOKEN|><|USER_TOKEN|>", "command-r"),
            ("'<|user|>' + '\n' + message['content'] + '<|end|>'", "phi"),
            ("<|im_start|>user<|im_sep|>", "phi"),
            ("[gMASK]<sop>{% for item in messages %}<|user|>", "glm4"),
            ("{{'<｜Assistant｜>' + content}}", "deepseek"),
            ("<|im_user|>user<|im_middle|>", "kimi"),
            ("<|start|>assistant<|channel|>final<|message|>", "harmony"),
            ("'<|user|>\n' + message['content'] + '\n<|assistant|>\n'", "tulu"),
            ("<|user|>{{ .Prompt }}<|model|>", "metharme"),
            ("### Instruction:\n{{ .Prompt }}\n\n### Response:\n", "alpaca"),
            ("USER: {{ .Prompt }} ASSISTANT:", "vicuna"),
        ] {
            assert_eq!(by_template(template).map(|shape| shape.id), Some(want), "{template}");
        }
        assert!(by_template("{{ .Prompt }}").is_none() && by_template("").is_none());
    }

    #[test]
    fn the_kinds_of_deepseek() {
        let off = |template: &str| format!("{:?}", by_template(template).unwrap());
        assert!(off("{{'<｜Assistant｜>'}}{{'</think>'}}").contains("<｜Assistant｜></think>"));
        assert!(off("{{'<｜Assistant｜><think>\\n'}}").contains("by_default: true"));
        assert!(off("{{'<｜Assistant｜>' + content}}").contains("by_default: false"));
    }
}
