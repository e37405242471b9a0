//! A one-shot latch on which threads wait until it is opened.

use std::sync::Arc;
use std::time::Duration;

use crate::watched::{WATCHDOG, Watched};

/// A gate that starts closed, is opened once and stays open.
///
/// Two gates script an interleaving: one thread opens the first to report that it has arrived, the
/// other opens the second to let it continue. Clones share the same gate.
///
/// # Examples
///
/// ```
/// use tidegate_testkit::Gate;
///
/// let (arrived, go_on) = (Gate::new(), Gate::new());
/// let worker = std::thread::spawn({
///     let (arrived, go_on) = (arrived.clone(), go_on.clone());
///     move || {
///         arrived.open();
///         go_on.wait();
///         "went on"
///     }
/// });
/// arrived.wait();
/// assert!(!worker.is_finished());
/// go_on.open();
/// assert_eq!(worker.join().expect("it does not panic"), "went on");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Gate {
    is_open: Arc<Watched<bool>>,
}

impl Gate {
    /// Creates a closed gate.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens the gate for all current and later waiters. What this thread did before happens
    /// before they continue.
    ///
    /// # Threads
    ///
    /// Can be called on any thread, any number of times. Never blocks on the waiters.
    pub fn open(&self) {
        self.is_open.update(|is_open| *is_open = true);
    }

    /// Blocks until the gate is open.
    ///
    /// # Panics
    ///
    /// If the gate is still closed after [`WATCHDOG`]. The location is the caller's line.
    #[track_caller]
    pub fn wait(&self) {
        self.wait_at_most(WATCHDOG);
    }

    /// Returns `true` if the gate is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_open.read(|&is_open| is_open)
    }

    #[track_caller]
    pub(crate) fn wait_at_most(&self, limit: Duration) {
        self.is_open.wait_until(
            limit,
            |&is_open| is_open,
            |_| "the gate was not opened".to_owned(),
        );
    }
}
