//! The home of promises whose listeners run on the completing thread.

use std::any::Any;

use super::id::ExecutorId;
use super::rejected::{RejectReason, Rejected};
use super::traits::Executor;
use crate::raw::signal::Signal;
use crate::{Clock, OnUnhandled, Task, Unhandled, WaitRefusedError};

/// The home of promises whose listeners run on the completing thread. It is an executor that runs
/// nothing: a blocking wait is checked against it, and it receives what no other code handles.
///
/// ```
/// use tidegate_core::Executor;
/// use tidegate_core::executor::{ExecutorId, PromiseHome};
///
/// struct Here(ExecutorId);
/// impl PromiseHome for Here {
///     fn id(&self) -> ExecutorId {
///         self.0
///     }
///     fn name(&self) -> &str {
///         "here"
///     }
/// }
/// let here = Here(ExecutorId::next());
/// assert!(here.is_current(), "on every thread");
/// ```
pub trait PromiseHome: Send + Sync + 'static {
    /// Returns the identity of this home, or of the executor for which it stands.
    fn id(&self) -> ExecutorId;

    /// Returns the name in errors and reports.
    fn name(&self) -> &str;

    /// See [`Executor::clock`]. The default is the system's clock.
    fn clock(&self) -> &Clock {
        static SYSTEM: Clock = Clock::system();
        &SYSTEM
    }

    /// See [`Executor::width`].
    fn width(&self) -> usize {
        1
    }

    /// See [`Executor::begin_wait`].
    ///
    /// # Errors
    ///
    /// A [`WaitRefusedError`] when the wait would never end.
    fn begin_wait(&self) -> Result<Option<Box<dyn Any + Send>>, WaitRefusedError> {
        Ok(None)
    }

    /// See [`Executor::unhandled`].
    fn report(&self, what: &Unhandled<'_>) {
        OnUnhandled::default().report(self.name(), what);
    }
}

impl<H: PromiseHome> Executor for H {
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        Err(Rejected::new(task, RejectReason::Unsupported))
    }

    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        Err(Rejected::new(signal, RejectReason::Unsupported))
    }

    fn is_current(&self) -> bool {
        true
    }

    fn id(&self) -> ExecutorId {
        PromiseHome::id(self)
    }

    fn name(&self) -> &str {
        PromiseHome::name(self)
    }

    fn clock(&self) -> &Clock {
        PromiseHome::clock(self)
    }

    fn width(&self) -> usize {
        PromiseHome::width(self)
    }

    fn begin_wait(&self) -> Result<Option<Box<dyn Any + Send>>, WaitRefusedError> {
        PromiseHome::begin_wait(self)
    }

    fn unhandled(&self, what: &Unhandled<'_>) {
        // Listeners that are nested too deep are sent here, refused, and run later on the same
        // thread. That is no error.
        if !matches!(what, Unhandled::ListenerFellBack) {
            self.report(what);
        }
    }
}
