//! A periodic task: its closure, its completion, and its period.

use std::any::type_name;

use tidegate_core::internal::contain;

use super::period::Period;
use crate::executor::TaskPromise;

/// A periodic task. Event loops, pools and ordered views share it; each of them keeps it in its own
/// timer between two runs.
pub struct Repeat {
    run: Box<dyn FnMut() + Send>,
    answer: TaskPromise<()>,
    every: Period,
    name: &'static str,
}

impl Repeat {
    /// Creates a periodic task whose end is told to `answer`.
    pub fn new<F: FnMut() + Send + 'static>(
        answer: TaskPromise<()>,
        every: Period,
        run: F,
    ) -> Self {
        Self {
            run: Box::new(run),
            answer,
            every,
            name: type_name::<F>(),
        }
    }

    /// Runs the task once. Returns it if it did not panic; a panic fails its completion.
    ///
    /// If the completion was cancelled meanwhile, the task must not run again. The caller checks
    /// [`Repeat::is_cancelled`] under the lock with which it stores the task, so that a later
    /// cancellation finds the task there.
    pub fn run(mut self) -> Option<Self> {
        match contain(&mut self.run) {
            Ok(()) => Some(self),
            Err(panic) => {
                self.answer.fail_panic(self.name, panic);
                None
            }
        }
    }

    /// Returns `true` if the completion was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.answer.is_cancelled()
    }

    /// Returns the next deadline, after a run that was due at `deadline` and ended at `now`.
    pub fn next(&self, deadline: u64, now: u64) -> u64 {
        self.every.next(deadline, now)
    }

    /// Returns the name of the closure.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Cancels the completion. Returns the closure, whose `Drop` is user code.
    pub(super) fn cancel(self) -> Box<dyn Send> {
        drop(self.answer);
        Box::new(self.run)
    }
}

impl std::fmt::Debug for Repeat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Repeat")
            .field("name", &self.name)
            .field("every", &self.every)
            .finish_non_exhaustive()
    }
}
