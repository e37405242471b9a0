//! The lifecycle of a timer.

use std::task::Waker;
use std::thread::ThreadId;

use tidegate_core::ThreadBuilder;
use tidegate_core::internal::ThreadWatch;

/// The lifecycle state of a timer.
///
/// ```text
///   New ──► Starting ──► Running ──► Stopping ──► Ended
///    │          └── a failed start goes back to New
///    ├── stopped before it started: Ended
///    └── a worker that ends by itself: Broken ──► Ended
/// ```
pub(super) enum Lifecycle {
    New(ThreadBuilder),
    /// The thread with this id is starting the worker. The lock is not held in the meantime.
    Starting(ThreadId),
    Running(ThreadWatch),
    /// Stopped; the worker is about to end.
    Stopping(Stopping),
    /// The worker ended although the timer was not stopped. A stop finds the unfired timeouts.
    Broken,
    Ended,
}

impl Lifecycle {
    /// Returns the state for a dump, and the name of the worker's thread.
    pub(super) fn describe(&self) -> (&'static str, Option<String>) {
        let name = |watch: &ThreadWatch| Some(watch.info().name().to_owned());
        match self {
            Self::New(_) => ("not started", None),
            Self::Starting(_) => ("starting", None),
            Self::Running(watch) => ("running", name(watch)),
            Self::Stopping(stopping) => match &stopping.worker {
                Worker::Starting(_) => ("shutting down", None),
                Worker::Started(watch) => ("shutting down", name(watch)),
            },
            Self::Broken => ("broken", None),
            Self::Ended => ("ended", None),
        }
    }
}

/// A shutdown whose worker has not ended.
pub(super) struct Stopping {
    pub(super) worker: Worker,
    /// Woken when the worker has ended. Without a waker, nothing waits for the unfired timeouts.
    pub(super) waker: Option<Waker>,
}

/// The worker of a timer that was stopped.
#[derive(Clone)]
pub(super) enum Worker {
    /// The thread with this id is starting the worker.
    Starting(ThreadId),
    Started(ThreadWatch),
}
