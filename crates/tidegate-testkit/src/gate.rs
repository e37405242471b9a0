//! A one-shot latch on which threads wait until it is opened.

use std::sync::Arc;
use std::time::Duration;

use crate::watched::{WATCHDOG, Watched};

/// A gate that starts closed, is opened once and stays open.
///
/// # Examples
///
/// ```
/// use tidegate_testkit::Gate;
///
/// let gate = Gate::new();
/// let worker = std::thread::spawn(gate.waits());
/// gate.open();
/// worker.join().expect("it does not panic");
/// assert!(gate.is_open());
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

    /// Creates a closed gate, and returns it twice: one to open it, the other to wait for it.
    #[must_use]
    pub fn pair() -> (Self, Self) {
        let gate = Self::new();
        (gate.clone(), gate)
    }

    /// Returns a closure that opens the gate.
    pub fn opens(&self) -> impl Fn() + Clone + Send + Sync + use<> {
        let gate = self.clone();
        move || gate.open()
    }

    /// Returns a closure that waits until the gate is open.
    pub fn waits(&self) -> impl Fn() + Clone + Send + Sync + use<> {
        let gate = self.clone();
        move || gate.wait()
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

/// A place where one thread stops until another lets it go on: two gates.
///
/// # Examples
///
/// ```
/// use tidegate_testkit::Stop;
///
/// let stop = Stop::new();
/// let inside = stop.closure();
/// let worker = std::thread::spawn(move || {
///     inside();
///     "went on"
/// });
/// stop.reached();
/// assert!(!worker.is_finished());
/// stop.go_on();
/// assert_eq!(worker.join().expect("it does not panic"), "went on");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Stop {
    arrived: Gate,
    go_on: Gate,
}

impl Stop {
    /// Creates a place that no thread has reached.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a closure that reports the arrival of its thread, and blocks until it may go on.
    pub fn closure(&self) -> impl Fn() + Clone + Send + Sync + use<> {
        let Self { arrived, go_on } = self.clone();
        move || {
            arrived.open();
            go_on.wait();
        }
    }

    /// Waits until a thread has arrived. Returns the gate that lets it go on.
    ///
    /// # Panics
    ///
    /// As [`Gate::wait`].
    #[track_caller]
    pub fn reached(&self) -> Gate {
        self.arrived.wait();
        self.gate()
    }

    /// Returns the gate that lets the thread go on.
    #[must_use]
    pub fn gate(&self) -> Gate {
        self.go_on.clone()
    }

    /// Opens the gate: the thread goes on.
    pub fn go_on(&self) {
        self.go_on.open();
    }
}
