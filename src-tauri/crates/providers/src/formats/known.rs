//! The built-in formats, each as the makers of its models publish it (their chat templates and model cards). None has the
//! mark of a text's beginning, since every server of text completion puts that there itself; `[gMASK]<sop>` is no such
//! mark.

use super::{Format, Place, Think, Wrap, write};
use crate::tags::Marks;

/// A [`Format`] as it is written down here.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) id: &'static str,
    pub(super) name: &'static str,
    start: &'static str,
    system: (&'static str, &'static str),
    user: (&'static str, &'static str),
    assistant: (&'static str, &'static str),
    /// Where it is not the assistant's prefix.
    open: Option<&'static str>,
    place: Place,
    trims: bool,
    merges: bool,
    stops: &'static [&'static str],
    /// More control marks than what stands around the turns, the stop strings, and everything like `<|word|>`.
    controls: &'static [&'static str],
    think: Think,
    /// Thinking: how it begins, and how it may end.
    thoughts: &'static [(&'static str, &'static [&'static str])],
    /// Marks in an answer that mean nothing to a reader.
    dropped: &'static [&'static str],
}

const BASE: Shape = Shape {
    id: "",
    name: "",
    start: "",
    system: ("", ""),
    user: ("", ""),
    assistant: ("", ""),
    open: None,
    place: Place::Own,
    trims: false,
    merges: false,
    stops: &[],
    controls: &[],
    think: NO_THINK,
    thoughts: &[],
    dropped: &[],
};

const NO_THINK: Think = Think {
    by_default: false,
    system: "",
    on: "",
    off: "",
};

/// The format of models that nothing is known of.
pub(super) fn default() -> &'static Shape {
    &CHATML
}

pub(super) fn by_id(id: &str) -> Option<&'static Shape> {
    ALL.iter().copied().find(|shape| shape.id == id)
}

/// In the order of the contract (section 4.3).
pub(super) static ALL: [&Shape; 20] = [
    &CHATML,
    &LLAMA3,
    &LLAMA4,
    &LLAMA2,
    &MISTRAL_V7_TEKKEN,
    &MISTRAL_V7,
    &MISTRAL_V3_TEKKEN,
    &MISTRAL_V2,
    &GEMMA,
    &GEMMA4,
    &COMMAND_R,
    &PHI,
    &GLM4,
    &DEEPSEEK,
    &KIMI,
    &HARMONY,
    &TULU,
    &METHARME,
    &ALPACA,
    &VICUNA,
];

/// OpenAI's ChatML, as Qwen, Hermes, Yi, SmolLM and many others use it.
static CHATML: Shape = Shape {
    id: "chatml",
    name: "ChatML",
    system: ("<|im_start|>system\n", "<|im_end|>\n"),
    user: ("<|im_start|>user\n", "<|im_end|>\n"),
    assistant: ("<|im_start|>assistant\n", "<|im_end|>\n"),
    stops: &["<|im_end|>", "<|im_start|>"],
    ..BASE
};

/// Qwen 3 and others whose template can turn the thinking off: by an answer that begins with an empty thought.
pub(super) static CHATML_THINKING: Shape = Shape {
    think: Think {
        by_default: true,
        off: "<think>\n\n</think>\n\n",
        ..NO_THINK
    },
    ..CHATML
};

static LLAMA3: Shape = Shape {
    id: "llama3",
    name: "Llama 3",
    system: ("<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>"),
    user: ("<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"),
    assistant: ("<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"),
    trims: true,
    stops: &["<|eot_id|>", "<|start_header_id|>"],
    ..BASE
};

static LLAMA4: Shape = Shape {
    id: "llama4",
    name: "Llama 4",
    system: ("<|header_start|>system<|header_end|>\n\n", "<|eot|>"),
    user: ("<|header_start|>user<|header_end|>\n\n", "<|eot|>"),
    assistant: ("<|header_start|>assistant<|header_end|>\n\n", "<|eot|>"),
    trims: true,
    stops: &["<|eot|>", "<|header_start|>"],
    ..BASE
};

/// Every pair of turns begins anew with `<s>`. The first one is the server's.
static LLAMA2: Shape = Shape {
    id: "llama2",
    name: "Llama 2",
    system: ("<<SYS>>\n", "\n<</SYS>>\n\n"),
    user: ("[INST] ", " [/INST]"),
    assistant: (" ", " </s><s>"),
    open: Some(""),
    place: Place::FirstUser,
    trims: true,
    merges: true,
    stops: &["</s>", "[INST]"],
    controls: &["<s>", "[/INST]", "<<SYS>>", "<</SYS>>"],
    ..BASE
};

/// Mistral Small 3 and later, Devstral, Magistral.
static MISTRAL_V7_TEKKEN: Shape = Shape {
    id: "mistral-v7-tekken",
    name: "Mistral V7 (Tekken)",
    system: ("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"),
    user: ("[INST]", "[/INST]"),
    assistant: ("", "</s>"),
    merges: true,
    stops: &["</s>", "[INST]"],
    controls: MISTRAL_CONTROLS,
    thoughts: &[("[THINK]", &["[/THINK]"])],
    ..BASE
};

const MISTRAL_CONTROLS: &[&str] = &[
    "<s>",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_CALLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
];

/// Mistral Large 2411, Pixtral Large.
static MISTRAL_V7: Shape = Shape {
    id: "mistral-v7",
    name: "Mistral V7",
    system: ("[SYSTEM_PROMPT] ", "[/SYSTEM_PROMPT]"),
    user: ("[INST] ", "[/INST]"),
    assistant: (" ", "</s>"),
    open: Some(""),
    thoughts: &[],
    ..MISTRAL_V7_TEKKEN
};

/// Mistral Nemo, Ministral, Pixtral. The system prompt stands in the last turn of the person.
static MISTRAL_V3_TEKKEN: Shape = Shape {
    id: "mistral-v3-tekken",
    name: "Mistral V3 (Tekken)",
    system: ("", "\n\n"),
    place: Place::LastUser,
    thoughts: &[],
    ..MISTRAL_V7_TEKKEN
};

/// Mistral 7B 0.2 and 0.3, Mixtral, Mistral Small 2409, Mistral Large 2407, Codestral: tokenizers V2 and V3.
static MISTRAL_V2: Shape = Shape {
    id: "mistral-v2",
    name: "Mistral V2 and V3",
    system: ("", "\n\n"),
    place: Place::LastUser,
    ..MISTRAL_V7
};

/// Knows no system prompt: it stands at the beginning of the person's first turn.
static GEMMA: Shape = Shape {
    id: "gemma",
    name: "Gemma 1 to 3",
    system: ("", "\n\n"),
    user: ("<start_of_turn>user\n", "<end_of_turn>\n"),
    assistant: ("<start_of_turn>model\n", "<end_of_turn>\n"),
    place: Place::FirstUser,
    trims: true,
    merges: true,
    stops: &["<end_of_turn>", "<start_of_turn>"],
    controls: &["<bos>", "<eos>"],
    ..BASE
};

/// Thinks when its system prompt begins with `<|think|>`; otherwise the answer begins with an empty thought.
static GEMMA4: Shape = Shape {
    id: "gemma4",
    name: "Gemma 4",
    system: ("<|turn>system\n", "<turn|>\n"),
    user: ("<|turn>user\n", "<turn|>\n"),
    assistant: ("<|turn>model\n", "<turn|>\n"),
    trims: true,
    stops: &["<turn|>", "<|turn>"],
    controls: &[
        "<bos>",
        "<eos>",
        "<|channel>",
        "<channel|>",
        "<|tool>",
        "<tool|>",
        "<|tool_call>",
        "<tool_call|>",
        "<|tool_response>",
        "<tool_response|>",
        "<|\"|>",
    ],
    think: Think {
        by_default: false,
        system: "<|think|>",
        on: "",
        off: "<|channel>thought\n<channel|>",
    },
    thoughts: &[("<|channel>thought", &["<channel|>"])],
    ..BASE
};

static COMMAND_R: Shape = Shape {
    id: "command-r",
    name: "Command R",
    system: ("<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>", "<|END_OF_TURN_TOKEN|>"),
    user: ("<|START_OF_TURN_TOKEN|><|USER_TOKEN|>", "<|END_OF_TURN_TOKEN|>"),
    assistant: ("<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>", "<|END_OF_TURN_TOKEN|>"),
    trims: true,
    stops: &["<|END_OF_TURN_TOKEN|>", "<|START_OF_TURN_TOKEN|>"],
    controls: &["<BOS_TOKEN>", "<EOS_TOKEN>"],
    thoughts: &[("<|START_THINKING|>", &["<|END_THINKING|>"])],
    dropped: &["<|START_RESPONSE|>", "<|END_RESPONSE|>"],
    ..BASE
};

/// Phi 3 and 3.5.
static PHI: Shape = Shape {
    id: "phi",
    name: "Phi",
    system: ("<|system|>\n", "<|end|>\n"),
    user: ("<|user|>\n", "<|end|>\n"),
    assistant: ("<|assistant|>\n", "<|end|>\n"),
    stops: &["<|end|>", "<|user|>"],
    ..BASE
};

/// Phi 4 has marks of its own.
pub(super) static PHI4: Shape = Shape {
    system: ("<|im_start|>system<|im_sep|>", "<|im_end|>"),
    user: ("<|im_start|>user<|im_sep|>", "<|im_end|>"),
    assistant: ("<|im_start|>assistant<|im_sep|>", "<|im_end|>"),
    stops: &["<|im_end|>", "<|im_start|>"],
    ..PHI
};

static GLM4: Shape = Shape {
    id: "glm4",
    name: "GLM 4",
    start: "[gMASK]<sop>",
    system: ("<|system|>\n", ""),
    user: ("<|user|>\n", ""),
    assistant: ("<|assistant|>\n", ""),
    open: Some("<|assistant|>"),
    stops: &["<|user|>", "<|observation|>", "<|system|>"],
    controls: &["[gMASK]", "[MASK]", "[sMASK]", "<sop>", "<eop>"],
    ..BASE
};

/// V2.5 and V3: no thinking.
static DEEPSEEK: Shape = Shape {
    id: "deepseek",
    name: "DeepSeek",
    user: ("<｜User｜>", ""),
    assistant: ("<｜Assistant｜>", "<｜end▁of▁sentence｜>"),
    stops: &["<｜end▁of▁sentence｜>", "<｜User｜>"],
    controls: &[
        "<｜begin▁of▁sentence｜>",
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>",
        "<｜tool▁call▁begin｜>",
        "<｜tool▁call▁end｜>",
        "<｜tool▁outputs▁begin｜>",
        "<｜tool▁outputs▁end｜>",
        "<｜tool▁output▁begin｜>",
        "<｜tool▁output▁end｜>",
        "<｜tool▁sep｜>",
    ],
    ..BASE
};

/// R1 and the models distilled from it always think.
pub(super) static DEEPSEEK_R1: Shape = Shape {
    think: Think {
        by_default: true,
        on: "<think>\n",
        off: "<think>\n\n</think>\n\n",
        ..NO_THINK
    },
    ..DEEPSEEK
};

/// From V3.1 on: turns that were not thought about begin with the end of a thought.
pub(super) static DEEPSEEK_HYBRID: Shape = Shape {
    assistant: ("<｜Assistant｜></think>", "<｜end▁of▁sentence｜>"),
    open: Some("<｜Assistant｜>"),
    think: Think {
        by_default: false,
        system: "",
        on: "<think>",
        off: "</think>",
    },
    ..DEEPSEEK
};

/// Kimi K2, Moonlight.
static KIMI: Shape = Shape {
    id: "kimi",
    name: "Kimi",
    system: ("<|im_system|>system<|im_middle|>", "<|im_end|>"),
    user: ("<|im_user|>user<|im_middle|>", "<|im_end|>"),
    assistant: ("<|im_assistant|>assistant<|im_middle|>", "<|im_end|>"),
    stops: &["<|im_end|>", "<|im_user|>"],
    controls: &["[BOS]", "[EOS]", "[EOT]"],
    thoughts: &[("◁think▷", &["◁/think▷"])],
    ..BASE
};

/// gpt-oss. Its own system prompt says how much to think; what others call the system prompt is the developer's. The
/// line with today's date is left out.
static HARMONY: Shape = Shape {
    id: "harmony",
    name: "Harmony (gpt-oss)",
    start: "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: 2024-06\n\n\
            Reasoning: {level}\n\n# Valid channels: analysis, commentary, final. Channel must be included for every \
            message.<|end|>",
    system: ("<|start|>developer<|message|># Instructions\n\n", "<|end|>"),
    user: ("<|start|>user<|message|>", "<|end|>"),
    assistant: ("<|start|>assistant<|channel|>final<|message|>", "<|end|>"),
    open: Some("<|start|>assistant"),
    // Not `<|end|>`: the thought ends with it, and the answer comes after it.
    stops: &["<|return|>", "<|call|>"],
    // Servers that keep `<|end|>` to themselves leave the beginning of the next message.
    thoughts: &[("<|channel|>analysis<|message|>", &["<|end|>", "<|start|>assistant"])],
    dropped: &[
        "<|start|>assistant",
        "<|channel|>final<|message|>",
        "<|channel|>commentary<|message|>",
        "<|end|>",
        "<|return|>",
    ],
    ..BASE
};

/// Tülu 3, OLMo 2.
static TULU: Shape = Shape {
    id: "tulu",
    name: "Tülu",
    system: ("<|system|>\n", "\n"),
    user: ("<|user|>\n", "\n"),
    assistant: ("<|assistant|>\n", "<|end_of_text|>\n"),
    stops: &["<|end_of_text|>", "<|endoftext|>", "<|user|>"],
    ..BASE
};

/// Metharme and Pygmalion 2.
static METHARME: Shape = Shape {
    id: "metharme",
    name: "Metharme (Pygmalion)",
    system: ("<|system|>", ""),
    user: ("<|user|>", ""),
    assistant: ("<|model|>", ""),
    stops: &["<|user|>", "<|system|>", "<|model|>"],
    controls: &["<s>", "</s>"],
    ..BASE
};

static ALPACA: Shape = Shape {
    id: "alpaca",
    name: "Alpaca",
    system: ("", "\n\n"),
    user: ("### Instruction:\n", "\n\n"),
    assistant: ("### Response:\n", "\n\n"),
    stops: &["### Instruction:", "### Response:", "### Input:"],
    controls: &["<s>", "</s>"],
    ..BASE
};

/// Vicuna 1.1 and later.
static VICUNA: Shape = Shape {
    id: "vicuna",
    name: "Vicuna",
    system: ("", " "),
    user: ("USER: ", " "),
    assistant: ("ASSISTANT: ", "</s>"),
    open: Some("ASSISTANT:"),
    stops: &["USER:", "</s>"],
    controls: &["<s>"],
    ..BASE
};

impl From<&Shape> for Format {
    fn from(shape: &Shape) -> Self {
        let wrap = |(prefix, suffix): (&str, &str)| Wrap {
            prefix: prefix.to_owned(),
            suffix: suffix.to_owned(),
        };
        let around = [shape.system, shape.user, shape.assistant];
        let around = around.iter().flat_map(|(prefix, suffix)| [*prefix, *suffix]);
        let controls = around
            .chain(shape.stops.iter().copied())
            .chain(shape.controls.iter().copied());
        Format {
            id: shape.id,
            start: shape.start.to_owned(),
            system: wrap(shape.system),
            user: wrap(shape.user),
            assistant: wrap(shape.assistant),
            open: shape.open.unwrap_or(shape.assistant.0).to_owned(),
            place: shape.place,
            trims: shape.trims,
            merges: shape.merges,
            stops: shape.stops.iter().map(|stop| (*stop).to_owned()).collect(),
            controls: write::usable_controls(controls.map(|text| text.trim().to_owned())),
            think: shape.think,
            marks: Marks::of_format(shape.thoughts, shape.dropped),
        }
    }
}

impl Default for Format {
    /// ChatML.
    fn default() -> Self {
        default().into()
    }
}

impl From<&&'static Shape> for Format {
    fn from(shape: &&'static Shape) -> Self {
        Format::from(*shape)
    }
}
