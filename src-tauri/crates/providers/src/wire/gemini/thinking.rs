//! How much a Gemini model is asked to think: a budget in tokens up to 2.5, a level from 3 on.

use serde_json::{Value, json};

use crate::request::Level;
use crate::wire::Asking;

/// What a model's name says of what it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Model {
    family: Family,
    /// The smaller ones can be told not to think, or hardly.
    pro: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// By its version; one that its name does not tell counts as the newest.
    Gemini(u32, u32),
    /// Open models, by their version.
    Gemma(u32),
    Other,
}

impl Model {
    pub(super) fn of(id: &str) -> Self {
        let id = id.to_ascii_lowercase();
        let version = |name: &str| {
            let (_, rest) = id.split_once(name)?;
            let mut words = rest
                .split(|c: char| !c.is_ascii_alphanumeric())
                .skip_while(|word| number(word).is_none());
            let major = words.next().and_then(number);
            let minor = words.next().and_then(number);
            Some((major.unwrap_or(u32::MAX), minor.unwrap_or(0)))
        };
        let family = match (version("gemini"), version("gemma")) {
            (Some((major, minor)), _) => Family::Gemini(major, minor),
            (None, Some((major, _))) => Family::Gemma(major),
            (None, None) => Family::Other,
        };
        Self {
            family,
            pro: id.contains("pro"),
        }
    }

    /// Gemma up to 3 refuses `systemInstruction`.
    pub(super) fn has_no_system(self) -> bool {
        matches!(self.family, Family::Gemma(major) if major <= 3)
    }

    /// Refuses to go on after a call of its own that comes back without its signature.
    pub(super) fn wants_signatures(self) -> bool {
        matches!(self.family, Family::Gemini(major, _) if major >= 3)
    }

    fn thinks(self) -> bool {
        match self.family {
            Family::Gemini(major, minor) => (major, minor) >= (2, 5),
            Family::Gemma(major) => major >= 4,
            Family::Other => true,
        }
    }

    fn takes_levels(self) -> bool {
        match self.family {
            Family::Gemini(major, _) => major >= 3,
            Family::Gemma(_) => true,
            Family::Other => false,
        }
    }
}

fn number(word: &str) -> Option<u32> {
    let digits = (1..=2).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| word.parse().ok()).flatten()
}

/// `thinkingConfig`; a level and a budget at once are refused.
pub(super) fn config(asking: &Asking<'_>, model: Model) -> Option<Value> {
    if asking.quirk.no_reasoning || !model.thinks() {
        return None;
    }
    let tokens = asking.request.thinking_tokens();
    let level = match (asking.level(), tokens) {
        (None, None) => return None,
        (_, Some(0)) if !asking.quirk.must_reason => Level::Off,
        (Some(level), _) => level,
        (None, tokens) => level_of(tokens.unwrap_or(0)),
    };
    let tokens = tokens.filter(|tokens| *tokens > 0 && level != Level::Off);
    let shown = level != Level::Off;
    let levels = model.takes_levels() != asking.quirk.other_thinking;
    let mut config = match tokens {
        // Also taken by those that know levels.
        Some(tokens) if !(levels && asking.quirk.other_thinking) => json!({"thinkingBudget": tokens}),
        _ if levels => json!({"thinkingLevel": word(level, model)}),
        _ => json!({"thinkingBudget": budget(level, model)}),
    };
    config["includeThoughts"] = shown.into();
    Some(config)
}

/// The level whose budget this is, for models that know levels only.
fn level_of(tokens: u64) -> Level {
    match tokens {
        0..=2048 => Level::Low,
        2049..=8192 => Level::Medium,
        _ => Level::High,
    }
}

/// Google's word for a level. The large models know no `minimal`, and the first of them no `medium`; none can be told not
/// to think.
fn word(level: Level, model: Model) -> &'static str {
    match level {
        Level::Off | Level::Minimal if model.pro => "low",
        Level::Off | Level::Minimal => "minimal",
        Level::Low => "low",
        Level::Medium if model.pro && model.family == Family::Gemini(3, 0) => "high",
        Level::Medium => "medium",
        Level::High | Level::Xhigh | Level::Max => "high",
    }
}

/// The budget of a level, in tokens: within what each of the models takes, 512 (Flash-Lite) or 128 (Pro) to 24576 (Flash).
fn budget(level: Level, model: Model) -> u64 {
    match level {
        // Pro cannot be told not to think.
        Level::Off if model.pro => 128,
        Level::Off => 0,
        Level::Minimal => 512,
        Level::Low => 2048,
        Level::Medium => 8192,
        Level::High => 16384,
        Level::Xhigh | Level::Max => 24576,
    }
}
