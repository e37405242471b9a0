//! What a loop waits on: a parker, later a poller, or a test's own hand.

use std::sync::Arc;

use tidegate_core::{Clock, Parker, Sleeper, Task};

use crate::state::health::Health;

/// What a loop waits on when it has nothing to do.
///
/// The loop calls `wait` only after it has found its lanes empty, and whoever pushes afterwards
/// wakes it through what `waker` answered.
///
/// A driver may keep what must not leave the loop's thread (channels with handlers that are not
/// `Send`) in a thread-local between `enter` and `leave`.
pub trait Driver: Send + 'static {
    /// Whether an idle loop looks on for a while before it waits. A driver whose wait is a look
    /// at something else than the lanes says no.
    const LOOKS_ON: bool = true;

    /// The calling thread drives the loop from now on.
    fn enter(&mut self) {}

    /// The calling thread no longer drives the loop.
    fn leave(&mut self) {}

    /// Sleeps until nanosecond `deadline` of `clock`, or until woken. May return early.
    fn wait(&mut self, clock: &Clock, deadline: Option<u64>);

    /// Wakes this driver from any thread.
    fn waker(&self) -> Arc<dyn Sleeper>;

    /// How the driver fares; asked once, when its loop is made.
    fn health(&self) -> Health {
        Health::new()
    }

    /// Work that the driver itself has found, such as a channel that became readable. Asked
    /// again until it answers `None`.
    fn next_task(&mut self) -> Option<Task> {
        None
    }

    /// The same for several at a time: a task that does at most `most` of what the driver has found,
    /// and how many. Asked by a loop that runs what its driver finds itself. The task says with
    /// [`Running::move_on`](tidegate_core::Running::move_on) when it comes to the next of them, so that
    /// each counts as a task of its own.
    #[inline]
    fn next_tasks(&mut self, most: usize) -> Option<(Task, usize)> {
        let _ = most;
        Some((self.next_task()?, 1))
    }

    /// Looks for such work without waiting. Called now and then while other work runs, so that a
    /// loop that never sleeps still hears of it, and in each turn of a loop driven by hand.
    fn look(&mut self) {}

    /// Whether the loop may give its thread back as far as the driver is concerned.
    fn is_idle(&self) -> bool {
        true
    }

    /// How many more tasks could be had at once, as far as is known without looking.
    fn backlog(&self) -> usize {
        0
    }

    /// The loop is about to close, and its tasks have run: takes nothing new. False while something of
    /// the driver's is still with another thread; asked again whenever the loop is woken, until its
    /// time is over.
    fn wind_up(&mut self) -> bool {
        true
    }

    /// Who is still with another thread: for the report of a loop whose time is over.
    fn absent(&self) -> Vec<String> {
        Vec::new()
    }

    /// The loop closes: lets go of everything. Called on the loop, after its last task and
    /// before its promises are told the end.
    fn close(&mut self) {}
}

/// Waits in a parker: the driver of a loop without I/O.
#[derive(Debug, Default)]
pub struct ParkDriver {
    parker: Parker,
}

impl ParkDriver {
    /// A driver with a parker of its own.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Driver for ParkDriver {
    fn wait(&mut self, clock: &Clock, deadline: Option<u64>) {
        clock.park_until(&self.parker, deadline);
    }

    fn waker(&self) -> Arc<dyn Sleeper> {
        Arc::new(self.parker.clone())
    }
}
