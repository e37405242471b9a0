//! The life of a timer, as a state.

use std::task::Waker;
use std::thread::ThreadId;

use tidegate_core::{ThreadBuilder, ThreadWatch};

/// Where a timer is in its life.
///
/// ```text
///   New ──► Starting ──► Running ──► Stopping ──► Ended
///    │          └── a failed start goes back to New
///    ├── stopped before it started: Ended
///    └── a worker that ends by itself: Broken ──► Ended
/// ```
pub(super) enum Life {
    New(ThreadBuilder),
    /// This thread is starting the worker; the lock is free meanwhile.
    Starting(ThreadId),
    Running(ThreadWatch),
    /// Stopped; the worker is on its way out. Without a waker nobody waits for what is left.
    Stopping(Option<Waker>),
    /// The worker ended although nobody had stopped the timer: a stop finds what is left.
    Broken,
    Ended,
}
