//! A record of events from several threads, in the order in which they were pushed.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use crate::watched::{WATCHDOG, Watched};

/// Records events from any thread in one order. Clones share the same log.
///
/// # Examples
///
/// ```
/// use tidegate_testkit::Log;
///
/// let log = Log::new();
/// log.push("open");
/// log.push("read");
/// log.push("close");
/// log.assert_order(&["open", "close"]);
/// assert_eq!(log.take(), ["open", "read", "close"]);
/// assert!(log.is_empty());
/// ```
#[derive(Debug)]
pub struct Log<E> {
    events: Arc<Watched<Vec<E>>>,
}

impl<E> Log<E> {
    /// Creates an empty log.
    #[must_use]
    pub fn new() -> Self {
        Self {
            events: Arc::new(Watched::new(Vec::new())),
        }
    }

    /// Creates an empty log, and returns it twice: one for a test, the other for what it observes.
    #[must_use]
    pub fn pair() -> (Self, Self) {
        let log = Self::new();
        (log.clone(), log)
    }

    /// Appends an event.
    pub fn push(&self, event: E) {
        self.events.update(|events| events.push(event));
    }

    /// Returns a closure that appends this event each time.
    pub fn pushes(&self, event: E) -> impl Fn() + Clone + Send + Sync + use<E>
    where
        E: Clone + Send + Sync,
    {
        let log = self.clone();
        move || log.push(event.clone())
    }

    /// Removes and returns all events, oldest first.
    #[must_use]
    pub fn take(&self) -> Vec<E> {
        self.events.update(std::mem::take)
    }

    /// Blocks until the log holds at least `len` events.
    ///
    /// # Examples
    ///
    /// ```
    /// let log = tidegate_testkit::Log::new();
    /// std::thread::spawn(log.pushes("done"));
    /// log.wait_for(1);
    /// assert_eq!(log.take(), ["done"]);
    /// ```
    ///
    /// # Panics
    ///
    /// If there are still fewer events after [`WATCHDOG`].
    #[track_caller]
    pub fn wait_for(&self, len: usize) {
        self.wait_at_most(WATCHDOG, len);
    }

    /// Returns the number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.read(Vec::len)
    }

    /// Returns `true` if the log is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[track_caller]
    pub(crate) fn wait_at_most(&self, limit: Duration, len: usize) {
        self.events.wait_until(
            limit,
            |events| events.len() >= len,
            |events| format!("the log stopped at {} of {len} events", events.len()),
        );
    }
}

impl<E: PartialEq + Debug> Log<E> {
    /// Asserts that these events were recorded in this order. Other events may lie between them.
    ///
    /// To assert that there are no other events, compare with [`take`](Self::take).
    ///
    /// # Panics
    ///
    /// If an event is missing after its predecessors. The message contains the event and the log.
    #[track_caller]
    pub fn assert_order(&self, expected: &[E]) {
        let complaint = self.events.read(|events| {
            let mut rest = events.iter();
            let missing = expected
                .iter()
                .position(|wanted| !rest.any(|event| event == wanted))?;
            let (before, wanted) = (&expected[..missing], &expected[missing]);
            Some(format!(
                "no {wanted:?} after {before:?} in the log {events:?}"
            ))
        });
        if let Some(sentence) = complaint {
            panic!("{sentence}");
        }
    }
}

impl<E> Clone for Log<E> {
    fn clone(&self) -> Self {
        Self {
            events: Arc::clone(&self.events),
        }
    }
}

impl<E> Default for Log<E> {
    fn default() -> Self {
        Self::new()
    }
}
