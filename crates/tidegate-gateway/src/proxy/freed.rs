//! The moment at which an attempt has given back what it held.
//!
//! An attempt whose time is over holds its permit and its place until its connection is closed. The next
//! attempt of the request needs the same ones, so it begins after that.

use std::sync::Mutex;

use tidegate_core::internal::lock;

type Step = Box<dyn FnOnce() + Send>;

/// What follows the end of an attempt.
#[derive(Default)]
pub(super) struct Freed(Mutex<Next>);

#[derive(Default)]
enum Next {
    /// The attempt holds a permit and a place, and nothing waits for them.
    #[default]
    Held,
    /// This step follows.
    Then(Step),
    /// Both were given back.
    Free,
}

impl Freed {
    /// Runs `step` when the attempt has given back what it held: now, if it has.
    pub(super) fn then(&self, step: impl FnOnce() + Send + 'static) {
        let mut next = lock(&self.0);
        if !matches!(*next, Next::Free) {
            *next = Next::Then(Box::new(step));
            return;
        }
        drop(next);
        step();
    }

    /// Notes that the attempt has given back what it held. Runs the step that follows.
    pub(super) fn free(&self) {
        let mut next = lock(&self.0);
        let before = std::mem::replace(&mut *next, Next::Free);
        drop(next);
        if let Next::Then(step) = before {
            step();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn a_step_runs_once_after_the_end_in_either_order() {
        let runs = Arc::new(AtomicU32::new(0));
        let step = || {
            let runs = Arc::clone(&runs);
            move || {
                runs.fetch_add(1, Ordering::Relaxed);
            }
        };
        let before = Freed::default();
        before.then(step());
        assert_eq!(runs.load(Ordering::Relaxed), 0);
        before.free();
        before.free();
        assert_eq!(runs.load(Ordering::Relaxed), 1);
        before.then(step());
        assert_eq!(runs.load(Ordering::Relaxed), 2);
    }
}
