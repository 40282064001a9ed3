//! Who may run next: places for calls under way, some of them kept free for deeper ones, and some for other apps.
//!
//! A call that waits for a deeper call of its own keeps its place. If such calls could take all places, none of them
//! would ever end. So a call may take a place only when more than [`reserve`] of them are free, and deeper calls need
//! less: whatever calls of depth `d` do, one of depth `d + 1` finds a place.
//!
//! A call that waits for anything else keeps its place too, for as long as it likes. So that the calls of one plugin cannot
//! take the places of all others that way, the last ones are for those who hold fewer: see [`State::fair`].

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Deepest chain of calls; the engine refuses longer ones (hop limit 5).
const DEEPEST: u8 = 5;

/// Places that have to stay free when a call of this depth takes one, of `all`.
///
/// From five places on, `(5 - depth) * max(1, all / 16)`: every chain of five gets on. With less, a chain as long as the
/// places allow, as far as that leaves two places to the outermost calls.
fn reserve(depth: u8, all: usize) -> usize {
    let depth = depth.clamp(1, DEEPEST);
    if all < usize::from(DEEPEST) {
        all.saturating_sub(1 + usize::from(depth))
    } else {
        usize::from(DEEPEST - depth) * (all / 16).max(1)
    }
}

/// The places of a pool.
pub struct Places(Mutex<State>);

struct State {
    all: usize,
    free: usize,
    /// Places held, by app and depth, and by plugin. An app is what stands before the last `/` of a plugin's key.
    apps: HashMap<String, [usize; DEEPEST as usize]>,
    plugins: HashMap<String, usize>,
    /// Calls that wait, by depth from 1, first come first.
    waiting: [VecDeque<Waiting>; DEEPEST as usize],
}

struct Waiting {
    key: String,
    tell: oneshot::Sender<Place>,
}

/// One place. Free again when dropped.
pub struct Place(Option<Held>);

struct Held {
    of: Arc<Places>,
    key: String,
    depth: u8,
}

fn app(key: &str) -> &str {
    key.rsplit_once('/').map_or(key, |(app, _)| app)
}

fn at(depth: u8) -> usize {
    usize::from(depth.clamp(1, DEEPEST)) - 1
}

impl State {
    /// Whether a call of this plugin may take a place now.
    fn may(&self, key: &str, depth: u8) -> bool {
        self.free > reserve(depth, self.all) && self.fair(key, depth)
    }

    /// Whether that leaves the others what they need. Of the places that outermost calls may take, the last one is for an
    /// app that has none, the one before it for a plugin that has none, and further ones, a seventh of what the app has,
    /// for the others too. With the default of 32 processes one plugin can have 21 calls under way, and another app always
    /// gets in beside it; with very few processes, one call.
    ///
    /// Deeper calls come out of the same places. Each app can always have one at each depth, so that its chains get on;
    /// more only while there is room.
    fn fair(&self, key: &str, depth: u8) -> bool {
        let spare = self.free.saturating_sub(reserve(1, self.all));
        let Some(held) = self.apps.get(app(key)) else {
            return true;
        };
        if depth > 1 {
            return held[at(depth)] == 0 || spare > 3;
        }
        if !self.plugins.contains_key(key) {
            return spare > 1;
        }
        // Its deeper calls may still take two.
        let least = if self.all < 16 { 2 } else { 3 };
        spare > (held.iter().sum::<usize>() / 7).max(least)
    }

    fn hold(&mut self, key: &str, depth: u8) {
        self.free -= 1;
        self.apps.entry(app(key).to_owned()).or_default()[at(depth)] += 1;
        *self.plugins.entry(key.to_owned()).or_default() += 1;
    }

    fn let_go(&mut self, key: &str, depth: u8) {
        self.free += 1;
        if let Some(held) = self.apps.get_mut(app(key)) {
            held[at(depth)] -= 1;
            if *held == [0; DEEPEST as usize] {
                self.apps.remove(app(key));
            }
        }
        if let Some(held) = self.plugins.get_mut(key) {
            *held -= 1;
            if *held == 0 {
                self.plugins.remove(key);
            }
        }
    }
}

impl Places {
    pub fn new(all: usize) -> Arc<Places> {
        let all = all.max(1);
        Arc::new(Places(Mutex::new(State {
            all,
            free: all,
            apps: HashMap::new(),
            plugins: HashMap::new(),
            waiting: Default::default(),
        })))
    }

    fn place(self: &Arc<Places>, key: &str, depth: u8) -> Place {
        Place(Some(Held {
            of: self.clone(),
            key: key.to_owned(),
            depth,
        }))
    }

    /// A place at once, or none.
    pub fn try_take(self: &Arc<Places>, key: &str, depth: u8) -> Option<Place> {
        let mut state = self.0.lock();
        // Nobody is passed: those that wait at this depth wait because this does not hold for them.
        if state.may(key, depth) {
            state.hold(key, depth);
            return Some(self.place(key, depth));
        }
        None
    }

    /// Waits for a place, first come first served within a depth among those that may have one; deeper calls go first.
    pub async fn take(self: &Arc<Places>, key: &str, depth: u8) -> Option<Place> {
        let told = {
            if let Some(place) = self.try_take(key, depth) {
                return Some(place);
            }
            let (tell, told) = oneshot::channel();
            let key = key.to_owned();
            self.0.lock().waiting[at(depth)].push_back(Waiting { key, tell });
            told
        };
        // One may have become free between the two looks.
        self.hand_out();
        told.await.ok()
    }

    fn hand_out(self: &Arc<Places>) {
        while let Some((tell, place)) = self.next() {
            // One that does not wait any more gives its place back here, by dropping it.
            let _ = tell.send(place);
        }
    }

    fn next(self: &Arc<Places>) -> Option<(oneshot::Sender<Place>, Place)> {
        let mut state = self.0.lock();
        for depth in (1..=DEEPEST).rev() {
            if state.free <= reserve(depth, state.all) {
                return None;
            }
            let mut queue = std::mem::take(&mut state.waiting[at(depth)]);
            queue.retain(|waiting| !waiting.tell.is_closed());
            // Who waits for one plugin waits for it in long rows.
            let mut refused = "";
            let found = queue.iter().position(|waiting| {
                let may = waiting.key != refused && state.fair(&waiting.key, depth);
                refused = if may { refused } else { &waiting.key };
                may
            });
            let found = found.and_then(|at| queue.remove(at));
            state.waiting[at(depth)] = queue;
            if let Some(Waiting { key, tell }) = found {
                state.hold(&key, depth);
                return Some((tell, self.place(&key, depth)));
            }
        }
        None
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(Held { of, key, depth }) = self.0.take() {
            of.0.lock().let_go(&key, depth);
            of.hand_out();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deeper_calls_always_find_a_place() {
        for all in 1..200 {
            assert!(reserve(1, all) < all, "an outermost call of {all}");
            for depth in 1..DEEPEST {
                let (this, next) = (reserve(depth, all), reserve(depth + 1, all));
                assert!(
                    this > next || (all < 5 && this == 0),
                    "{all}: {depth} leaves {this}, {next}"
                );
            }
            assert_eq!(reserve(DEEPEST, all), 0, "{all}");
        }
        assert_eq!((reserve(0, 64), reserve(1, 64), reserve(9, 64)), (16, 16, 0));
    }

    #[tokio::test]
    async fn first_come_first_served_and_those_who_left_are_passed_over() {
        let places = Places::new(1);
        let held = places.try_take("x/y/p", 1).unwrap();
        assert!(places.try_take("x/y/p", 5).is_none());
        let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(places.take("x/y/p", 1))).collect();
        for one in &mut waiting {
            assert!(futures::poll!(one).is_pending());
        }
        drop(waiting.remove(0));
        drop(held);
        assert!(futures::poll!(&mut waiting[1]).is_pending());
        let second = waiting.remove(0).await.unwrap();
        assert!(futures::poll!(&mut waiting[0]).is_pending());
        drop(second);
        drop(waiting.remove(0).await.unwrap());
        // A place given to one who never looked comes back too.
        let held = places.try_take("x/y/p", 1).unwrap();
        let mut gone = Box::pin(places.take("x/y/p", 1));
        assert!(futures::poll!(&mut gone).is_pending());
        drop(held);
        drop(gone);
        assert!(places.try_take("x/y/p", 1).is_some());
    }

    /// Takes places for outermost calls of `key` until there is none.
    fn fill(places: &Arc<Places>, key: &str, depth: u8) -> Vec<Place> {
        std::iter::from_fn(|| places.try_take(key, depth)).collect()
    }

    #[test]
    fn what_one_takes_leaves_the_others_some() {
        // Of five, there is one outermost place in all.
        for all in (2..200).filter(|all| *all != 5) {
            let places = Places::new(all);
            let own = fill(&places, "x/hog/p", 1);
            assert!(!own.is_empty());
            // As deep as it can, everywhere.
            let deep: Vec<Place> = (2..=3).flat_map(|depth| fill(&places, "x/hog/p", depth)).collect();
            let other = fill(&places, "x/other/p", 1);
            let taken = (own.len(), deep.len());
            assert!(!other.is_empty() || all < 16, "{all}: {taken:?} taken");
            drop((deep, other));
            assert!(!fill(&places, "x/other/p", 1).is_empty(), "{all}");
        }
        let places = Places::new(32);
        let own = fill(&places, "x/hog/p", 1);
        let siblings = fill(&places, "x/hog/q", 1);
        let other = fill(&places, "x/other/p", 1);
        assert_eq!((own.len(), siblings.len(), other.len()), (21, 1, 1));
        drop((own, siblings, other));
        for (all, want) in [(2, (1, 1)), (4, (1, 1)), (8, (2, 1))] {
            let places = Places::new(all);
            let own = fill(&places, "x/hog/p", 1);
            let other = fill(&places, "x/other/p", 1);
            assert_eq!((own.len(), other.len()), want, "{all}");
        }
        let places = Places::new(1);
        assert_eq!(fill(&places, "x/hog/p", 1).len(), 1);
    }

    #[tokio::test]
    async fn who_may_not_have_one_yet_holds_up_nobody_behind() {
        let places = Places::new(4);
        let hog = places.try_take("x/hog/p", 1).unwrap();
        let mut again = Box::pin(places.take("x/hog/p", 1));
        assert!(futures::poll!(&mut again).is_pending());
        let other = places.take("x/other/p", 1).await.unwrap();
        let mut third = Box::pin(places.take("x/third/p", 1));
        assert!(futures::poll!(&mut third).is_pending());
        drop(other);
        // The one that waited longer still may not: it would be the last place.
        assert!(futures::poll!(&mut again).is_pending());
        let third = third.await.unwrap();
        drop((hog, third));
        again.await.unwrap();
        let state = places.0.lock();
        assert!(state.free == 4 && state.apps.is_empty() && state.plugins.is_empty());
    }
}
