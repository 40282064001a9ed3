//! How much a model is asked to think, and how long its answer may get: the two share one limit.

use serde_json::{Map, Value, json};

use super::names::Claude;
use crate::request::Level;
use crate::wire::Asking;

/// Room for the answer where the request states no limit. The format wants one, and charges only for what is written.
const ANSWER: u64 = 8192;
/// What the oldest Claude models write at most.
const SHORT_ANSWER: u64 = 4096;
/// The smallest budget that the format takes, in tokens.
const LEAST: u64 = 1024;

/// What the body says about thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Say {
    Nothing,
    /// Only to models that would think otherwise.
    Off,
    /// At most so many tokens.
    Budget(u64),
    Adaptive {
        effort: &'static str,
        /// The model hides its thinking unless it is told to show a summary.
        show: bool,
    },
    /// `presetParams.params` has it in the format's own words.
    Theirs {
        on: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    say: Say,
    pub(super) max_tokens: u64,
}

impl Plan {
    pub(super) fn new(asking: &Asking<'_>, claude: Option<Claude>, params: &Map<String, Value>) -> Self {
        let stated = params
            .get("max_tokens")
            .and_then(Value::as_u64)
            .or_else(|| asking.max_tokens());
        let answer = match claude.is_some_and(Claude::is_short) {
            true => SHORT_ANSWER,
            false => ANSWER,
        };
        if let Some(thinking) = params.get("thinking") {
            let budget = thinking.get("budget_tokens").and_then(Value::as_u64).unwrap_or(0);
            return Self {
                say: Say::Theirs {
                    on: thinking["type"] != "disabled",
                },
                max_tokens: stated.unwrap_or(answer.saturating_add(budget)),
            };
        }
        let level = match asking.level() {
            Some(Level::Off) if claude.is_some_and(Claude::always_thinks) => Some(Level::Minimal),
            level => level,
        };
        let tokens = asking.request.thinking_tokens();
        let off = level == Some(Level::Off) || (tokens == Some(0) && !asking.quirk.must_reason);
        let thinks_unasked = claude.is_some_and(Claude::thinks_unasked);
        let say = if asking.quirk.no_reasoning || claude.is_some_and(|claude| !claude.thinks()) {
            Say::Nothing
        } else if off {
            match thinks_unasked {
                true => Say::Off,
                false => Say::Nothing,
            }
        } else if level.is_none() && tokens.is_none() {
            Say::Nothing
        } else {
            asked(asking, claude, level, tokens.filter(|tokens| *tokens > 0), stated)
        };
        let room = match say {
            Say::Nothing if thinks_unasked => room(Level::High),
            Say::Nothing | Say::Off | Say::Theirs { .. } => 0,
            Say::Budget(tokens) => tokens,
            Say::Adaptive { .. } => room(level.unwrap_or(level_of(tokens.unwrap_or(0)))),
        };
        Self {
            say,
            max_tokens: stated.unwrap_or(answer.saturating_add(room)),
        }
    }

    /// Whether the model is made to think, which forbids a prefill, forced tools and a temperature.
    pub(super) fn thinks(self) -> bool {
        match self.say {
            Say::Nothing | Say::Off => false,
            Say::Budget(_) | Say::Adaptive { .. } => true,
            Say::Theirs { on } => on,
        }
    }

    pub(super) fn write(self, body: &mut Map<String, Value>) {
        let thinking = match self.say {
            Say::Nothing | Say::Theirs { .. } => return,
            Say::Off => json!({"type": "disabled"}),
            Say::Budget(tokens) => json!({"type": "enabled", "budget_tokens": tokens}),
            Say::Adaptive { effort, show } => {
                body.insert("output_config".into(), json!({"effort": effort}));
                match show {
                    true => json!({"type": "adaptive", "display": "summarized"}),
                    false => json!({"type": "adaptive"}),
                }
            }
        };
        body.insert("thinking".into(), thinking);
    }
}

/// `tokens` is more than 0, if it is given.
fn asked(
    asking: &Asking<'_>,
    claude: Option<Claude>,
    level: Option<Level>,
    tokens: Option<u64>,
    stated: Option<u64>,
) -> Say {
    // A budget is taken at its word where a model takes both.
    let adapts = claude.is_some_and(|claude| claude.adapts() && !(claude.takes_budgets() && tokens.is_some()));
    if adapts != asking.quirk.other_thinking {
        let level = level.unwrap_or(level_of(tokens.unwrap_or(0)));
        return Say::Adaptive {
            effort: match claude {
                Some(claude) => claude.effort(level),
                None => words(level),
            },
            show: claude.is_none_or(|claude| claude.hides_thinking() || !claude.adapts()),
        };
    }
    let wanted = tokens.unwrap_or_else(|| budget(level.unwrap_or(Level::Low))).max(LEAST);
    match stated {
        None => Say::Budget(wanted),
        // The answer keeps as much as the smallest budget, as far as the limit goes.
        Some(limit) if limit > LEAST => Say::Budget(wanted.min(limit.saturating_sub(LEAST)).max(LEAST)),
        // There is no room for the least that the format takes.
        Some(_) => Say::Nothing,
    }
}

/// The budget of a level, in tokens. With the room for the answer all of them stay below 32000, the most that any model
/// that takes budgets writes.
fn budget(level: Level) -> u64 {
    match level {
        Level::Off | Level::Minimal => LEAST,
        Level::Low => 2048,
        Level::Medium => 8192,
        Level::High => 16384,
        Level::Xhigh => 20480,
        Level::Max => 23552,
    }
}

/// Room for thinking that has no budget of its own, in tokens. All models that think so write 64000 and more.
fn room(level: Level) -> u64 {
    match level {
        Level::Off => 0,
        Level::Minimal | Level::Low => 4096,
        Level::Medium => 8192,
        Level::High => 16384,
        Level::Xhigh => 32768,
        Level::Max => 49152,
    }
}

/// The level whose budget this is, for models that know levels only.
fn level_of(tokens: u64) -> Level {
    let levels = [Level::Low, Level::Medium, Level::High, Level::Xhigh];
    levels
        .into_iter()
        .find(|level| tokens <= budget(*level))
        .unwrap_or(Level::Max)
}

fn words(level: Level) -> &'static str {
    match level {
        Level::Off | Level::Minimal => "low",
        level => level.name(),
    }
}
