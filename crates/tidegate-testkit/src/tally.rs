//! Counts what becomes of the closures that a test hands over.

use crate::{Counter, DropCount, until, yield_times};

/// Counts closures that were made, ran and were dropped, and the completions whose end a listener
/// waits for. Clones share the counts.
///
/// # Examples
///
/// ```
/// use tidegate_testkit::Tally;
///
/// let tally = Tally::new();
/// let (runs, is_dropped) = (tally.closure(0), tally.closure(0));
/// let listener = tally.listener();
/// runs();
/// drop(is_dropped);
/// listener();
/// tally.wait_until_heard();
/// assert!(tally.has_dropped_all());
/// assert_eq!((tally.made(), tally.ran()), (2, 1));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Tally {
    made: Counter,
    ran: Counter,
    dropped: Counter,
    awaited: Counter,
    heard: Counter,
}

impl Tally {
    /// Creates a tally of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a closure that yields `steps` times and counts its run, and then its drop.
    pub fn closure(&self, steps: u64) -> impl FnOnce() + Send + use<> {
        self.made.hit();
        let (held, ran) = (DropCount::new(&self.dropped), self.ran.clone());
        move || {
            yield_times(steps);
            ran.hit();
            drop(held);
        }
    }

    /// Returns a listener for the end of a completion. Call it once.
    pub fn listener(&self) -> impl FnOnce() + Send + use<> {
        self.awaited.hit();
        let heard = self.heard.clone();
        move || {
            heard.hit();
        }
    }

    /// Returns the number of closures.
    #[must_use]
    pub fn made(&self) -> u64 {
        self.made.count()
    }

    /// Returns the number of closures that ran.
    #[must_use]
    pub fn ran(&self) -> u64 {
        self.ran.count()
    }

    /// Returns `true` if each closure has run or was dropped.
    #[must_use]
    pub fn has_dropped_all(&self) -> bool {
        self.dropped.count() == self.made.count()
    }

    /// Returns `true` if each listener was called.
    #[must_use]
    pub fn has_heard_all(&self) -> bool {
        self.heard.count() == self.awaited.count()
    }

    /// Waits until each listener was called.
    ///
    /// # Panics
    ///
    /// As [`until`]. Also if more closures ran than were made.
    #[track_caller]
    pub fn wait_until_heard(&self) {
        until("each listener was called", || self.has_heard_all());
        assert!(self.ran() <= self.made(), "a closure runs once");
    }
}
