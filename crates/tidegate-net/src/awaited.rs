//! Promises that are sent to a loop together with the work that completes them.

use std::io;
use std::sync::{Arc, OnceLock};

use tidegate_core::{Executor, RejectReason, Rejected, Task};
use tidegate_promise::{AlreadyCancelled, Failure, Outcome, Promise};

use crate::errors::{NetError, clone_io_error, tried};

/// Returns an outcome as a result: a cancellation is a failure.
pub(crate) fn result<'a, T>(outcome: Outcome<&'a T, &Failure>) -> Result<&'a T, Failure> {
    match outcome {
        Outcome::Success(value) => Ok(value),
        Outcome::Failure(why) => Err(why.clone()),
        Outcome::Cancelled => Err(Failure::cancelled()),
    }
}

/// A promise on its way to a loop. Its failures say what was tried. If the loop drops the work, the
/// promise fails with the loop's name and the reason, not as abandoned.
pub(crate) struct Awaited<T: Send + 'static> {
    /// `None` once it is completed.
    promise: Option<Promise<T>>,
    what: String,
    executor: Arc<dyn Executor>,
    refusal: Refused,
}

/// The reason why the loop refused the work, if it did.
#[derive(Clone, Default)]
pub(crate) struct Refused(Arc<OnceLock<RejectReason>>);

impl Refused {
    /// Drops a refused task, whose promises fail with the reason of the refusal.
    pub(crate) fn by(&self, refused: Rejected<Task>) {
        let _ = self.0.set(refused.why());
        drop(refused);
    }
}

impl<T: Send + 'static> Awaited<T> {
    /// Creates a promise. `what` says what is tried, as in "cannot connect to 127.0.0.1:80".
    pub(crate) fn new(promise: Promise<T>, what: String, executor: Arc<dyn Executor>) -> Self {
        Self {
            promise: Some(promise),
            what,
            executor,
            refusal: Refused::default(),
        }
    }

    /// Returns the place to record a refusal of the work.
    pub(crate) fn refusal(&self) -> Refused {
        self.refusal.clone()
    }

    pub(crate) fn on_cancel(&self, hook: impl FnOnce() + Send + 'static) {
        if let Some(promise) = &self.promise {
            promise.on_cancel(hook);
        }
    }

    pub(crate) fn succeed(mut self, value: T) -> Result<(), AlreadyCancelled<T>> {
        match self.promise.take() {
            Some(promise) => promise.succeed(value),
            None => Ok(()),
        }
    }

    /// Fails with `why`, and adds what was tried if `why` does not say so already.
    pub(crate) fn fail(mut self, why: &Failure) {
        let why = match why.downcast_ref::<NetError>() {
            Some(NetError::Closed(None)) => self.not_opened("it was closed before"),
            _ => match why.downcast_ref::<io::Error>() {
                Some(why) => Failure::new(tried(&self.what, clone_io_error(why))),
                None => why.clone(),
            },
        };
        if let Some(promise) = self.promise.take() {
            let _ = promise.fail(why);
        }
    }

    fn not_opened(&self, why: impl Into<String>) -> Failure {
        Failure::new(NetError::NotOpened {
            what: self.what.clone(),
            why: why.into(),
        })
    }
}

impl Awaited<()> {
    /// Completes or fails the promise.
    pub(crate) fn complete(self, done: io::Result<()>) {
        match done {
            Ok(()) => drop(self.succeed(())),
            Err(why) => self.fail(&Failure::new(why)),
        }
    }
}

impl<T: Send + 'static> Drop for Awaited<T> {
    fn drop(&mut self) {
        let Some(promise) = self.promise.take() else {
            return;
        };
        let name = self.executor.name();
        let why = match self.refusal.0.get() {
            Some(refusal) => format!("event loop `{name}` refused it: {refusal}"),
            None => format!("event loop `{name}` has ended; use a group that runs"),
        };
        let _ = promise.fail(self.not_opened(why));
    }
}

#[cfg(test)]
mod tests {
    //! Failures of a promise whose work was dropped.

    use tidegate_core::ThreadBuilder;
    use tidegate_core::thread::ThreadPerTask;
    use tidegate_promise::promise_with_error;

    use super::*;

    /// Returns the failure of the completion, as text, after `end` has ended the promise.
    fn told(end: impl FnOnce(Awaited<u32>)) -> String {
        let (promise, done) = promise_with_error::<u32, Failure>();
        let executor = Arc::new(ThreadPerTask::new(ThreadBuilder::new("io")));
        end(Awaited::new(promise, "cannot fly".to_owned(), executor));
        done.wait().unwrap_err().to_string()
    }

    #[test]
    fn a_promise_whose_work_is_dropped_names_the_loop_and_the_reason() {
        let dropped = told(drop);
        assert!(dropped.starts_with("cannot fly: event loop `"), "{dropped}");
        assert!(dropped.contains("has ended"), "{dropped}");
        let refused = told(|awaited| {
            let refusal = awaited.refusal();
            let task = Task::new(move || drop(awaited));
            refusal.by(Rejected::new(task, RejectReason::Full));
        });
        assert!(refused.contains("the queue is full"), "{refused}");
    }

    #[test]
    fn a_failure_says_what_was_tried_and_keeps_its_kind() {
        let (promise, done) = promise_with_error::<u32, Failure>();
        let executor = Arc::new(ThreadPerTask::new(ThreadBuilder::new("io")));
        let awaited = Awaited::new(promise, "cannot fly".to_owned(), executor);
        awaited.fail(&Failure::new(io::Error::from_raw_os_error(111)));
        let why = done.wait().unwrap_err().failure().unwrap();
        let io = why.downcast_ref::<io::Error>().unwrap();
        assert_eq!(io.kind(), io::ErrorKind::ConnectionRefused);
        assert!(why.to_string().starts_with("cannot fly: "), "{why}");
        let closed = told(|awaited| awaited.fail(&Failure::new(NetError::Closed(None))));
        assert_eq!(closed, "cannot fly: it was closed before");
    }
}
