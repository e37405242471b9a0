//! What an event loop waits on when it is idle: a parker, a poller, or a test driver.

use std::sync::Arc;

use tidegate_core::internal::Sleeper;
use tidegate_core::{Clock, Dump, Parker, Task};

use crate::state::health::Health;
use crate::state::shared::DriverView;

/// What an event loop waits on when it is idle.
///
/// The event loop calls `wait` only after it has found its lanes empty. A producer that pushes
/// afterwards wakes it through the result of `waker`.
///
/// A driver may keep data that must not leave the event loop's thread (channels with handlers that
/// are not `Send`) in a thread-local between `enter` and `leave`.
pub trait Driver: Send + 'static {
    /// `true` if an idle event loop spins for a while before it waits. `false` for a driver whose
    /// `wait` also polls something other than the lanes.
    const SPINS: bool = true;

    /// Called when the calling thread begins to drive the event loop.
    fn enter(&mut self) {}

    /// Called when the calling thread stops driving the event loop.
    fn leave(&mut self) {}

    /// Sleeps until nanosecond `deadline` of `clock`, or until woken. May return early.
    fn wait(&mut self, clock: &Clock, deadline: Option<u64>);

    /// Returns an object that wakes this driver from any thread.
    fn waker(&self) -> Arc<dyn Sleeper>;

    /// Returns the health of the driver. Called once, when the event loop is built.
    fn health(&self) -> Health {
        Health::new()
    }

    /// Returns what other threads can read of the driver. Called once, when the event loop is built.
    fn view(&self) -> Option<Arc<dyn DriverView>> {
        None
    }

    /// Returns the state of the driver for a dump, with the lists that only the event loop's thread
    /// can read. Called between two tasks. Must not call user code. If it returns `None`, the dump
    /// shows the [`Driver::view`].
    fn dump(&mut self) -> Option<Dump> {
        None
    }

    /// Returns a task that does at most `most` of the work items that the driver itself has found,
    /// such as channels that became readable, and how many it does. Called until it returns `None`.
    /// Each item counts as a task of its own. If the event loop runs the driver's work itself, the
    /// task calls [`Running::next_step`](tidegate_core::internal::Running::next_step) before each
    /// further item; an event loop that hands the task out counts the items then.
    #[inline]
    fn next_tasks(&mut self, most: usize) -> Option<(Task, usize)> {
        let _ = most;
        None
    }

    /// Looks for such work without waiting. Called now and then while other work runs, so that an
    /// event loop that never sleeps still finds it, and in each turn of an event loop that is
    /// driven by hand.
    fn poll(&mut self) {}

    /// Returns `true` if, as far as the driver is concerned, the event loop may give its thread
    /// back.
    fn is_idle(&self) -> bool {
        true
    }

    /// Returns how many more tasks are ready, as far as is known without looking.
    fn backlog(&self) -> usize {
        0
    }

    /// Stops accepting new work: the event loop is about to close, and its tasks have run. Returns
    /// `false` while another thread still has work of the driver. It is then called again whenever
    /// the event loop wakes up, until the shutdown deadline.
    fn begin_shutdown(&mut self) -> bool {
        true
    }

    /// Returns the names of the work that other threads still have, for the report of an event loop
    /// that passed its shutdown deadline.
    fn outstanding(&self) -> Vec<String> {
        Vec::new()
    }

    /// Releases everything: the event loop closes. Called on the event loop, after its last task
    /// and before the listeners of its promises are notified of the end.
    fn close(&mut self) {}
}

/// A driver that waits in a parker, for an event loop without I/O.
#[derive(Debug, Default)]
pub struct ParkDriver {
    parker: Parker,
}

impl ParkDriver {
    /// Creates a driver with a parker of its own.
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
