//! Where a channel lives, and where threads wait for it.
//!
//! A roaming loop has no access to a channel while a thread runs its handlers. A handler that waits for
//! an operation of its own channel would wait for ever, and so would two handlers that wait for each
//! other's channels. So each channel of a roaming loop is a place of its own in the wait record, with
//! one thread: the one that runs its handlers.

use std::any::Any;
use std::sync::Arc;

use tidegate_core::executor::{ExecutorId, Need, Signal, Work};
use tidegate_core::internal::{Capacity, record_wait};
use tidegate_core::{Clock, Executor, Rejected, Task, Unhandled, WaitRefusedError};

use crate::reactor::{RoamingShared, running_place};

/// The loop of a channel.
#[derive(Clone)]
pub(crate) struct Home {
    pub(crate) executor: Arc<dyn Executor>,
    /// The link to it, if it is a roaming loop.
    pub(crate) roam: Option<Arc<RoamingShared>>,
}

/// The home of the completions of a channel on a roaming loop: the loop, with a check of waits.
pub(super) struct WaitHome {
    executor: Arc<dyn Executor>,
    roam: Arc<RoamingShared>,
    /// The channel's place in the wait record.
    place: ExecutorId,
    /// Listeners run on the thread that completes.
    listens_anywhere: bool,
}

impl WaitHome {
    pub(super) fn new(executor: Arc<dyn Executor>, roam: Arc<RoamingShared>) -> Arc<Self> {
        Arc::new(Self {
            executor,
            roam,
            place: ExecutorId::next(),
            listens_anywhere: false,
        })
    }

    /// Returns the home for the end of the channel. Its listeners run on the thread that closes the
    /// channel.
    pub(super) fn of_end(&self) -> Arc<dyn Executor> {
        Arc::new(Self {
            executor: Arc::clone(&self.executor),
            roam: Arc::clone(&self.roam),
            place: self.place,
            listens_anywhere: true,
        })
    }

    pub(super) fn roam(&self) -> &Arc<RoamingShared> {
        &self.roam
    }

    pub(super) fn place(&self) -> ExecutorId {
        self.place
    }
}

impl Executor for WaitHome {
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        self.executor.execute(task)
    }

    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        self.executor.signal(signal)
    }

    fn is_current(&self) -> bool {
        self.listens_anywhere || self.executor.is_current()
    }

    fn id(&self) -> ExecutorId {
        self.executor.id()
    }

    fn name(&self) -> &str {
        self.executor.name()
    }

    fn clock(&self) -> &Clock {
        self.executor.clock()
    }

    fn needs(&self, work: Work) -> Vec<Need> {
        self.executor.needs(work)
    }

    fn begin_wait(&self) -> Result<Option<Box<dyn Any + Send>>, WaitRefusedError> {
        let of_loop = self.executor.begin_wait()?;
        let running = running_place().map(|place| (place, Capacity::Threads { width: 1, most: 1 }));
        match record_wait(running, self.place) {
            Ok(edges) => Ok(Some(Box::new((of_loop, edges)))),
            Err(_) => {
                let channel = format!("a channel of {}", self.name());
                Err(WaitRefusedError::deadlock(vec![channel]))
            }
        }
    }

    fn unhandled(&self, what: &Unhandled<'_>) {
        self.executor.unhandled(what);
    }
}
