//! A one-shot latch: threads wait until somebody opens it.

use std::sync::Arc;
use std::time::Duration;

use crate::watched::{WATCHDOG, Watched};

/// A gate that starts closed, is opened once and stays open.
///
/// Two of them script an interleaving: one thread says that it has arrived, the other that it
/// may go on. Clones are the same gate.
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
    /// Makes a closed gate.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets everyone through, now and later. What this thread did before is visible to them.
    ///
    /// # Threads
    ///
    /// Any thread, any number of times; never waits for the others.
    pub fn open(&self) {
        self.is_open.update(|is_open| *is_open = true);
    }

    /// Blocks until the gate is open.
    ///
    /// # Panics
    ///
    /// When nobody has opened it after [`WATCHDOG`]; the panic names the waiting line.
    #[track_caller]
    pub fn wait(&self) {
        self.wait_at_most(WATCHDOG);
    }

    /// Whether it was opened.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_open.read(|&is_open| is_open)
    }

    #[track_caller]
    pub(crate) fn wait_at_most(&self, limit: Duration) {
        self.is_open.wait_until(
            limit,
            |&is_open| is_open,
            |_| "nobody opened the gate".to_owned(),
        );
    }
}
