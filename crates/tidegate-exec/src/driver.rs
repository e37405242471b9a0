//! What a loop waits on: a parker, later a poller, or a test's own hand.

use std::sync::Arc;

use tidegate_sync::{Clock, Parker, Sleeper, Task};

/// What a loop waits on when it has nothing to do.
///
/// The loop calls `wait` only after it has found its lanes empty, and whoever pushes afterwards
/// wakes it through what `waker` answered.
pub trait Driver: Send + 'static {
    /// Sleeps until nanosecond `deadline` of `clock`, or until woken. May return early.
    fn wait(&mut self, clock: &Clock, deadline: Option<u64>);

    /// Wakes this driver from any thread.
    fn waker(&self) -> Arc<dyn Sleeper>;

    /// Work that the driver itself has found, such as a channel that became readable. Asked
    /// again until it answers `None`.
    fn next_task(&mut self) -> Option<Task> {
        None
    }
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
