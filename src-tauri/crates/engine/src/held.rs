//! A plugin's hold on a running answer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use apps::host::{Generation, Part};
use async_trait::async_trait;
use serde_json::Value;
use tokio::time::Instant;

use crate::streams::{Answer, Place};

/// A plugin's hold on a running answer. A plugin that dies lets go, and the request with it.
pub struct Held {
    answer: Arc<Answer>,
    place: Place,
    /// Tools that were told of and not yet handed on.
    tools: VecDeque<Value>,
    end: Option<Value>,
    /// The last part had text: if the server now falls silent, the plugin is told, once, so that it can save.
    fresh: bool,
    /// Parts of text handed on, and when the last one was.
    given: u32,
    last: Option<Instant>,
}

/// From this part on, a plugin is told of new text no oftener than every [`PACE`]: each telling wakes its worker, and with
/// 200 streams of 50 tokens a second that was 0.74 of a core. Pages read their streams without this pause.
const PROMPT_PARTS: u32 = 8;
const PACE: Duration = Duration::from_millis(40);

/// Silence after text that a plugin is told of: half of the 500 ms within which a partial answer is to be saved.
const SILENCE: Duration = Duration::from_millis(250);

impl Held {
    pub fn new(answer: Arc<Answer>) -> Self {
        Self {
            answer,
            place: Place::default(),
            tools: VecDeque::new(),
            end: None,
            fresh: false,
            given: 0,
            last: None,
        }
    }
}

#[async_trait]
impl Generation for Held {
    async fn next(&mut self) -> Part {
        if let Some(tool) = self.tools.pop_front() {
            return part(&tool);
        }
        if let Some(result) = self.end.clone() {
            return Part::Done(result);
        }
        if let Some(last) = self.last.filter(|_| self.given >= PROMPT_PARTS) {
            tokio::time::sleep_until(last + PACE).await;
        }
        let waiting = self.answer.next(&mut self.place);
        let news = if std::mem::take(&mut self.fresh) {
            let Ok(news) = tokio::time::timeout(SILENCE, waiting).await else {
                return Part::Text {
                    delta: String::new(),
                    thinking: String::new(),
                };
            };
            news
        } else {
            waiting.await
        };
        self.fresh = !news.delta.is_empty() || !news.thinking.is_empty();
        if self.fresh {
            self.given = self.given.saturating_add(1);
            self.last = Some(Instant::now());
        }
        self.end = news.end.map(|end| end.result);
        self.tools.extend(news.tools);
        if !self.fresh
            && let Some(tool) = self.tools.pop_front()
        {
            return part(&tool);
        }
        match &self.end {
            Some(result) if !self.fresh => Part::Done(result.clone()),
            _ => Part::Text {
                delta: news.delta,
                thinking: news.thinking,
            },
        }
    }

    fn abort(&self) {
        self.answer.stop();
    }
}

fn part(tool: &Value) -> Part {
    let text = |name: &str| tool[name].as_str().unwrap_or_default().to_owned();
    Part::Tool {
        phase: if tool["phase"] == "start" { "start" } else { "end" },
        name: text("name"),
        args: tool["args"].clone(),
        result: text("result"),
        is_error: tool["isError"].as_bool().unwrap_or(false),
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.answer.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn many_small_parts_are_handed_on_together() {
        let answer = Answer::new();
        let mut held = Held::new(answer.clone());
        let began = Instant::now();
        for _ in 0..PROMPT_PARTS {
            answer.push("a", "");
            assert!(matches!(held.next().await, Part::Text { delta, .. } if delta == "a"));
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
        answer.push("b", "");
        let more = answer.clone();
        tokio::spawn(async move {
            tokio::time::sleep(PACE / 2).await;
            more.push("c", "");
        });
        assert!(matches!(held.next().await, Part::Text { delta, .. } if delta == "bc"));
        assert_eq!(began.elapsed(), PACE);
    }

    #[tokio::test(start_paused = true)]
    async fn silence_after_text_is_told_once() {
        let answer = Answer::new();
        let mut held = Held::new(answer.clone());
        answer.push("words", "");
        assert!(matches!(held.next().await, Part::Text { delta, .. } if delta == "words"));
        assert!(matches!(held.next().await, Part::Text { delta, .. } if delta.is_empty()));
        let more = tokio::time::timeout(SILENCE * 10, held.next()).await;
        assert!(more.is_err(), "told once, then it waits");
        answer.push("more", "");
        assert!(matches!(held.next().await, Part::Text { delta, .. } if delta == "more"));
    }
}
