//! One event of a roaming source: from its slot to the thread that runs it, and back.

use std::sync::Arc;

use tidegate_core::internal::{PlainTask, contain};
use tidegate_core::{Blocking, Task};
use tidegate_pool::internal::run_task_of;

use super::super::io_context::IoContext;
use super::super::source::{Next, close_and_drop};
use super::updates::{RoamingShared, RoamingSource, Update};
use crate::sys::{Readiness, Token};

/// A roaming source in its task, with its I/O context. Reused for the next event.
pub(crate) struct RoamingTask {
    pub(super) token: Token,
    pub(super) readiness: Readiness,
    /// `None` if it has left for good.
    pub(super) source: Option<RoamingSource>,
    pub(super) io_context: IoContext,
    pub(super) roam: Arc<RoamingShared>,
}

impl RoamingTask {
    /// Creates an empty one.
    pub(super) fn new(roam: &Arc<RoamingShared>) -> Box<Self> {
        Box::new(Self {
            token: Token::from_bits(0),
            readiness: Readiness::NONE,
            source: None,
            io_context: IoContext::new(roam.more_counters()),
            roam: Arc::clone(roam),
        })
    }

    /// Returns the task that runs the source.
    pub(super) fn task(self: Box<Self>, kind: Blocking) -> Task {
        let journey = RoamingTaskGuard(Some(self));
        PlainTask::of(kind, move || journey.run())
    }

    /// Closes the source on this thread.
    pub(super) fn close(&mut self) {
        if let Some(source) = self.source.take() {
            close_and_drop(source, &mut self.io_context);
        }
    }

    /// Sends the source back to its loop. If the loop has ended, closes the source on this thread.
    fn go_home(self: Box<Self>, how: impl FnOnce(Box<Self>) -> Update) {
        let roam = Arc::clone(&self.roam);
        if let Err(Update::Home(mut roaming_task, _) | Update::Refused(mut roaming_task)) =
            roam.push(how(self))
        {
            roaming_task.close();
        }
    }
}

/// A `RoamingTask` inside a task. If the task is dropped without having run, the source goes back
/// to its loop with its event undelivered.
struct RoamingTaskGuard(Option<Box<RoamingTask>>);

impl RoamingTaskGuard {
    fn run(mut self) {
        let Some(mut roaming_task) = self.0.take() else {
            return;
        };
        let RoamingTask {
            source,
            io_context,
            readiness,
            roam,
            ..
        } = &mut *roaming_task;
        let mut handle = || match source {
            Some(source) => source.ready(*readiness, io_context),
            None => Next::Leave,
        };
        let handled = contain(|| match roam.timers() {
            Some(home) => run_task_of(home.id(), &mut handle),
            None => handle(),
        });
        let next = *handled.as_ref().unwrap_or(&Next::Leave);
        let gone = match next {
            // Its drop may be user code: here it does not hold up the loop.
            Next::Leave => contain(|| drop(source.take())).err(),
            _ => None,
        };
        roaming_task.go_home(|roaming_task| Update::Home(roaming_task, next));
        if let Some(panic) = handled.err().or(gone) {
            panic.resume();
        }
    }
}

impl Drop for RoamingTaskGuard {
    fn drop(&mut self) {
        if let Some(roaming_task) = self.0.take() {
            roaming_task.go_home(Update::Refused);
        }
    }
}
