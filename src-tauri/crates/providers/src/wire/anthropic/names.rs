//! What a Claude model's name says of what it takes: the list of models that Anthropic gives out says it for none of the
//! servers beside its own. What is not known by name is found out by a refusal (`relent`).

use crate::request::Level;

/// A model of the Claude family, by its version; one that its name does not tell counts as the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claude(u32, u32);

const NEWEST: Claude = Claude(u32::MAX, 0);

impl Claude {
    /// `None` for the models of others, which some servers offer over this format.
    ///
    /// The numbers stand behind the family (`claude-sonnet-4-5-20250929`, `claude-fable-5`) or before it
    /// (`claude-3-7-sonnet-20250219`, `claude-4.7-opus`); a date is no version.
    pub(super) fn of(model: &str) -> Option<Self> {
        let model = model.to_ascii_lowercase();
        let (_, rest) = model.split_once("claude")?;
        let mut words = rest
            .split(|c: char| !c.is_ascii_alphanumeric())
            .skip_while(|word| number(word).is_none());
        Some(match words.next().and_then(number) {
            Some(major) => Self(major, words.next().and_then(number).unwrap_or(0)),
            None => NEWEST,
        })
    }

    fn since(self, major: u32, minor: u32) -> bool {
        (self.0, self.1) >= (major, minor)
    }

    /// Whether it can think before it answers.
    pub(super) fn thinks(self) -> bool {
        self.since(3, 7)
    }

    /// Takes `thinking: {type: adaptive}` with an effort.
    pub(super) fn adapts(self) -> bool {
        self.since(4, 6)
    }

    /// Takes `thinking: {type: enabled, budget_tokens}`.
    pub(super) fn takes_budgets(self) -> bool {
        !self.since(4, 7)
    }

    /// Keeps its thinking to itself unless it is asked to show it.
    pub(super) fn hides_thinking(self) -> bool {
        self.since(4, 7)
    }

    /// Thinks when nothing is said about it.
    pub(super) fn thinks_unasked(self) -> bool {
        self.since(5, 0)
    }

    /// Refuses not to think. Claude Fable and Mythos do from 5.0 on, which their refusal tells.
    pub(super) fn always_thinks(self) -> bool {
        self.since(5, 5)
    }

    /// Refuses `temperature`, `top_p` and `top_k`.
    pub(super) fn refuses_sampling(self) -> bool {
        self.since(4, 7)
    }

    /// The most tokens that the oldest ones write in one answer.
    pub(super) fn is_short(self) -> bool {
        !self.since(3, 5)
    }

    /// Its word for how much to think.
    pub(super) fn effort(self, level: Level) -> &'static str {
        match level {
            Level::Off | Level::Minimal | Level::Low => "low",
            Level::Medium => "medium",
            Level::High => "high",
            Level::Xhigh if self.since(4, 7) => "xhigh",
            Level::Xhigh => "high",
            Level::Max => "max",
        }
    }
}

/// A part of a version: a number of one or two digits.
fn number(word: &str) -> Option<u32> {
    let digits = (1..=2).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| word.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_wherever_they_stand() {
        for (name, want) in [
            ("claude-3-haiku-20240307", Claude(3, 0)),
            ("claude-3-5-sonnet-latest", Claude(3, 5)),
            ("claude-3-7-sonnet-20250219", Claude(3, 7)),
            ("claude-opus-4-20250514", Claude(4, 0)),
            ("claude-sonnet-4-5-20250929", Claude(4, 5)),
            ("anthropic/claude-sonnet-4.6", Claude(4, 6)),
            ("claude-4.7-opus", Claude(4, 7)),
            ("us.anthropic.claude-opus-4-6-v1:0", Claude(4, 6)),
            ("claude-opus-4@20250514", Claude(4, 0)),
            ("Claude-Fable-5-1", Claude(5, 1)),
            ("claude-opus-5", Claude(5, 0)),
            ("claude-opus-latest", NEWEST),
            ("claude", NEWEST),
        ] {
            assert_eq!(Claude::of(name), Some(want), "{name}");
        }
        for other in ["deepseek-chat", "kimi-k2", "glm-4.6", ""] {
            assert_eq!(Claude::of(other), None, "{other}");
        }
    }
}
