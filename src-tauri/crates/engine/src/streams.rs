//! Running answers. One buffer per model request, read by the plugin that asked and by any number of pages, each at its
//! own pace; so a page that reloads, or comes late, finds all of it. Nobody's slowness holds anyone else up.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use policy::{AccountId, AppId};
use serde_json::Value;
use tokio::sync::watch;

/// How long a finished answer can still be read.
const LINGER: Duration = Duration::from_secs(60);
/// Bytes of one answer; a longer one is stopped and marked.
pub const ANSWER_LIMIT: usize = 16 << 20;
/// Bytes of ended answers that are kept per app for late readers; beyond them the oldest go before their time.
const ENDED_LIMIT: usize = 2 * ANSWER_LIMIT;
/// Tool messages of one answer: 8 rounds of 64 calls, each with a start and an end.
const TOOLS_LIMIT: usize = 1024;
/// Answers remembered per app, running ones included.
const PER_APP: usize = 256;

/// How an answer ended.
#[derive(Debug, Clone)]
pub struct End {
    pub stopped: bool,
    pub error: Option<String>,
    /// The same for the person, addresses included.
    pub whole: Option<String>,
    /// Contract section 4.2.
    pub result: Value,
}

#[derive(Debug, Default)]
struct State {
    text: String,
    thinking: String,
    /// Starts and ends of tools, as told.
    tools: Vec<Value>,
    /// Pauses before the request is sent again, as told; two at most per round.
    waits: Vec<Value>,
    end: Option<End>,
    ended_at: Option<Instant>,
}

/// One model request's answer as it grows.
pub struct Answer {
    state: Mutex<State>,
    changed: watch::Sender<()>,
    stop: watch::Sender<bool>,
}

/// How far one reader has come, in bytes and in tool messages.
#[derive(Debug, Default, Clone, Copy)]
pub struct Place {
    text: usize,
    thinking: usize,
    tools: usize,
    waits: usize,
}

/// What a reader has not seen yet.
#[derive(Debug, Default)]
pub struct News {
    pub delta: String,
    pub thinking: String,
    pub tools: Vec<Value>,
    /// `{ms, reason}` each.
    pub waits: Vec<Value>,
    pub end: Option<End>,
}

impl Answer {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            changed: watch::channel(()).0,
            stop: watch::channel(false).0,
        })
    }

    /// Adds text; `false` when the answer is over [`ANSWER_LIMIT`] and must end.
    pub fn push(&self, text: &str, thinking: &str) -> bool {
        let mut state = self.state.lock();
        state.text.push_str(text);
        state.thinking.push_str(thinking);
        let fits = state.text.len() + state.thinking.len() <= ANSWER_LIMIT;
        drop(state);
        self.changed.send_replace(());
        fits
    }

    /// Tells of a tool's start or end; `false` when there were more than a model that is right makes.
    pub fn push_tool(&self, tool: Value) -> bool {
        let mut state = self.state.lock();
        let fits = state.tools.len() < TOOLS_LIMIT;
        if fits {
            state.tools.push(tool);
        }
        drop(state);
        self.changed.send_replace(());
        fits
    }

    /// Tells of a pause before the request is sent again.
    pub fn push_wait(&self, wait: Value) {
        self.state.lock().waits.push(wait);
        self.changed.send_replace(());
    }

    pub fn finish(&self, end: End) {
        let mut state = self.state.lock();
        if state.end.is_none() {
            state.end = Some(end);
            state.ended_at = Some(Instant::now());
        }
        drop(state);
        self.changed.send_replace(());
    }

    pub fn so_far(&self) -> (String, String) {
        let state = self.state.lock();
        (state.text.clone(), state.thinking.clone())
    }

    /// What came after `place`, moving it on.
    fn read(&self, place: &mut Place) -> News {
        let state = self.state.lock();
        let news = News {
            delta: state.text[place.text..].to_owned(),
            thinking: state.thinking[place.thinking..].to_owned(),
            tools: state.tools[place.tools..].to_vec(),
            waits: state.waits[place.waits..].to_vec(),
            end: state.end.clone(),
        };
        *place = Place {
            text: state.text.len(),
            thinking: state.thinking.len(),
            tools: state.tools.len(),
            waits: state.waits.len(),
        };
        news
    }

    /// Waits until there is something after `place`, or the end.
    pub async fn next(&self, place: &mut Place) -> News {
        let mut changed = self.changed.subscribe();
        loop {
            let news = self.read(place);
            let none =
                news.delta.is_empty() && news.thinking.is_empty() && news.tools.is_empty() && news.waits.is_empty();
            if !none || news.end.is_some() {
                return news;
            }
            // The sender is in `self`, so it cannot be gone.
            let _ = changed.changed().await;
        }
    }

    /// Asks the request to stop; it ends with what has arrived.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    pub fn stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// Completes when [`Answer::stop`] was called.
    pub async fn stop_asked(&self) {
        let _ = self.stop.subscribe().wait_for(|stop| *stop).await;
    }

    fn ended(&self) -> bool {
        self.state.lock().end.is_some()
    }

    fn size(&self) -> usize {
        let state = self.state.lock();
        state.text.len() + state.thinking.len()
    }
}

/// Answers by the app they belong to and the name its page gave them.
#[derive(Default)]
pub struct Streams(
    Mutex<HashMap<(AccountId, AppId), Vec<Named>>>,
    Mutex<Nameless>,
    Arc<Mutex<Growing>>,
);

/// Bytes of the answers that run, by app.
type Growing = HashMap<(AccountId, AppId), usize>;

/// Bytes of all answers of one app that run at a time: each is held some five times over. Two of the largest.
const RUNNING_LIMIT: usize = 2 * ANSWER_LIMIT;

/// What one running answer takes of its app's [`RUNNING_LIMIT`].
pub struct Room {
    all: Arc<Mutex<Growing>>,
    of: (AccountId, AppId),
    taken: usize,
}

impl Room {
    /// Takes more; `false` when the app's answers are too large together, and this one must end.
    pub fn take(&mut self, bytes: usize) -> bool {
        self.taken += bytes;
        let mut all = self.all.lock();
        let together = all.entry(self.of.clone()).or_default();
        *together += bytes;
        *together <= RUNNING_LIMIT
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        let left = all
            .get(&self.of)
            .map_or(0, |together| together.saturating_sub(self.taken));
        match left {
            0 => drop(all.remove(&self.of)),
            left => drop(all.insert(self.of.clone(), left)),
        }
    }
}

/// Running answers that no page can name; they end with their app all the same.
type Nameless = HashMap<(AccountId, AppId), Vec<Weak<Answer>>>;

type Named = (String, Arc<Answer>);

impl Streams {
    /// Makes an answer readable under `name`. A later one of the same name hides the earlier.
    pub fn add(&self, account: &AccountId, app: &AppId, name: &str, answer: &Arc<Answer>) {
        let mut all = self.0.lock();
        let list = all.entry((account.clone(), app.clone())).or_default();
        list.retain(|(_, a)| a.state.lock().ended_at.is_none_or(|at| at.elapsed() < LINGER));
        if list.len() >= PER_APP
            && let Some(oldest) = list.iter().position(|(_, a)| a.ended())
        {
            list.remove(oldest);
        }
        if list.len() < PER_APP {
            list.push((name.to_owned(), answer.clone()));
        }
    }

    /// Lets go of what an app's ended answers hold beyond [`ENDED_LIMIT`]. For when one has ended: a
    /// server that answers endlessly, asked again and again, must not fill the memory.
    pub fn settle(&self, account: &AccountId, app: &AppId) {
        let mut all = self.0.lock();
        all.retain(|_, list| {
            list.retain(|(_, a)| a.state.lock().ended_at.is_none_or(|at| at.elapsed() < LINGER));
            !list.is_empty()
        });
        let Some(list) = all.get_mut(&(account.clone(), app.clone())) else {
            return;
        };
        let mut left = ENDED_LIMIT;
        for at in (0..list.len()).rev() {
            if !list[at].1.ended() {
                continue;
            }
            match left.checked_sub(list[at].1.size()) {
                Some(rest) => left = rest,
                None => drop(list.remove(at)),
            }
        }
    }

    /// Room for an answer that runs.
    pub fn room(&self, account: &AccountId, app: &AppId) -> Room {
        Room {
            all: self.2.clone(),
            of: (account.clone(), app.clone()),
            taken: 0,
        }
    }

    /// Remembers an answer without a name as long as it runs.
    pub fn watch(&self, account: &AccountId, app: &AppId, answer: &Arc<Answer>) {
        let mut all = self.1.lock();
        all.retain(|_, list| {
            list.retain(|answer| answer.strong_count() > 0);
            !list.is_empty()
        });
        let list = all.entry((account.clone(), app.clone())).or_default();
        list.push(Arc::downgrade(answer));
    }

    /// The newest answer of that name.
    pub fn find(&self, account: &AccountId, app: &AppId, name: &str) -> Option<Arc<Answer>> {
        let all = self.0.lock();
        let list = all.get(&(account.clone(), app.clone()))?;
        list.iter().rev().find(|(n, _)| n == name).map(|(_, a)| a.clone())
    }

    /// Stops every running answer of that name; whether there was one.
    pub fn stop(&self, account: &AccountId, app: &AppId, name: &str) -> bool {
        let all = self.0.lock();
        let mut active = false;
        for (_, answer) in all
            .get(&(account.clone(), app.clone()))
            .into_iter()
            .flatten()
            .filter(|(n, _)| n == name)
        {
            if !answer.ended() {
                active = true;
                answer.stop();
            }
        }
        active
    }

    /// Everything an app has running, for whoever stops it; it is no longer to be found here.
    pub fn take_app(&self, account: &AccountId, app: &AppId) -> Vec<Arc<Answer>> {
        let key = (account.clone(), app.clone());
        let named = self
            .0
            .lock()
            .remove(&key)
            .into_iter()
            .flatten()
            .map(|(_, answer)| answer);
        let nameless = self.1.lock().remove(&key).into_iter().flatten();
        let all = named.chain(nameless.filter_map(|answer| answer.upgrade()));
        all.filter(|answer| !answer.ended()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_answers_of_one_app_are_bounded_together() {
        let streams = Streams::default();
        let (account, app) = (AccountId::random(), AppId::parse("a").unwrap());
        let (mut one, mut two) = (streams.room(&account, &app), streams.room(&account, &app));
        assert!(one.take(ANSWER_LIMIT) && two.take(ANSWER_LIMIT));
        assert!(!two.take(1));
        // Another app has its own, and one that has ended gives its room back.
        assert!(streams.room(&account, &AppId::parse("b").unwrap()).take(ANSWER_LIMIT));
        drop(two);
        assert!(one.take(ANSWER_LIMIT) && !one.take(1));
        drop(one);
        assert!(streams.2.lock().is_empty());
    }

    #[tokio::test]
    async fn late_and_slow_readers_get_everything_once() {
        let answer = Answer::new();
        answer.push("ab", "");
        let mut early = Place::default();
        assert_eq!(answer.next(&mut early).await.delta, "ab");
        answer.push("cé", "hm");
        answer.push("d", "");
        let news = answer.next(&mut early).await;
        assert_eq!((news.delta.as_str(), news.thinking.as_str()), ("céd", "hm"));
        answer.finish(End {
            stopped: false,
            error: None,
            whole: None,
            result: Value::Null,
        });
        assert!(answer.next(&mut early).await.end.is_some());
        let late = answer.next(&mut Place::default()).await;
        assert_eq!(late.delta, "abcéd");
        assert!(late.end.is_some());
    }

    #[test]
    fn ended_answers_hold_no_more_than_their_share() {
        let (account, streams) = (AccountId::random(), Streams::default());
        let app = AppId::parse("a").unwrap();
        let half = "x".repeat(ENDED_LIMIT / 2);
        let running = Answer::new();
        running.push(&half, "");
        streams.add(&account, &app, "running", &running);
        for n in 0..5 {
            let answer = Answer::new();
            streams.add(&account, &app, &n.to_string(), &answer);
            answer.push(&half, "");
            answer.finish(End {
                stopped: false,
                error: None,
                whole: None,
                result: Value::Null,
            });
            streams.settle(&account, &app);
        }
        let kept: Vec<bool> = ["running", "0", "1", "2", "3", "4"]
            .iter()
            .map(|name| streams.find(&account, &app, name).is_some())
            .collect();
        assert_eq!(kept, [true, false, false, false, true, true]);
    }

    #[test]
    fn a_removed_apps_answers_stop_whether_named_or_not() {
        let (account, streams) = (AccountId::random(), Streams::default());
        let (a, b) = (AppId::parse("a").unwrap(), AppId::parse("b").unwrap());
        let (named, nameless, others) = (Answer::new(), Answer::new(), Answer::new());
        streams.add(&account, &a, "x", &named);
        streams.watch(&account, &a, &nameless);
        streams.watch(&account, &b, &others);
        streams.take_app(&account, &a).iter().for_each(|answer| answer.stop());
        assert!(named.stopped() && nameless.stopped() && !others.stopped());
        drop(others);
        streams.watch(&account, &a, &named);
        assert_eq!(streams.1.lock().len(), 1, "what has ended is forgotten");
    }

    #[test]
    fn names_are_per_app() {
        let (account, streams) = (AccountId::random(), Streams::default());
        let (a, b) = (AppId::parse("a").unwrap(), AppId::parse("b").unwrap());
        streams.add(&account, &a, "x", &Answer::new());
        assert!(streams.find(&account, &b, "x").is_none());
        assert!(!streams.stop(&account, &b, "x"));
        assert!(streams.stop(&account, &a, "x"));
    }
}
