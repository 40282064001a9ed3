//! Who may run next: places for calls under way, some of them kept free for deeper ones.
//!
//! A call that waits for a deeper call of its own keeps its place. If such calls could take all places, none of them
//! would ever end. So a call may take a place only when more than [`reserve`] of them are free, and deeper calls need
//! less: whatever calls of depth `d` do, one of depth `d + 1` finds a place.

use std::{collections::VecDeque, sync::Arc};

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
    /// Calls that wait, by depth from 1, first come first.
    waiting: [VecDeque<oneshot::Sender<Place>>; DEEPEST as usize],
}

/// One place. Free again when dropped.
pub struct Place(Option<Arc<Places>>);

impl Places {
    pub fn new(all: usize) -> Arc<Places> {
        let all = all.max(1);
        Arc::new(Places(Mutex::new(State {
            all,
            free: all,
            waiting: Default::default(),
        })))
    }

    /// A place at once, or none.
    pub fn try_take(self: &Arc<Places>, depth: u8) -> Option<Place> {
        let mut state = self.0.lock();
        // Nobody is passed: those that wait at this depth wait because this does not hold.
        if state.free > reserve(depth, state.all) {
            state.free -= 1;
            return Some(Place(Some(self.clone())));
        }
        None
    }

    /// Waits for a place, first come first served within a depth; deeper calls go first.
    pub async fn take(self: &Arc<Places>, depth: u8) -> Option<Place> {
        let told = {
            if let Some(place) = self.try_take(depth) {
                return Some(place);
            }
            let (tell, told) = oneshot::channel();
            let mut state = self.0.lock();
            state.waiting[usize::from(depth.clamp(1, DEEPEST)) - 1].push_back(tell);
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
        let (all, free) = (state.all, state.free);
        for depth in (1..=DEEPEST).rev() {
            if free <= reserve(depth, all) {
                return None;
            }
            let queue = &mut state.waiting[usize::from(depth) - 1];
            while let Some(tell) = queue.pop_front() {
                if !tell.is_closed() {
                    state.free -= 1;
                    return Some((tell, Place(Some(self.clone()))));
                }
            }
        }
        None
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(places) = self.0.take() {
            places.0.lock().free += 1;
            places.hand_out();
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
        let held = places.try_take(1).unwrap();
        assert!(places.try_take(5).is_none());
        let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(places.take(1))).collect();
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
        let held = places.try_take(1).unwrap();
        let mut gone = Box::pin(places.take(1));
        assert!(futures::poll!(&mut gone).is_pending());
        drop(held);
        drop(gone);
        assert!(places.try_take(1).is_some());
    }
}
