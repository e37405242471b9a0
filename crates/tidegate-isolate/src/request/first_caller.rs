//! The caller that executes a shared run, and passes its result to the others.

use std::sync::Arc;

use tidegate_core::CancelToken;
use tidegate_promise::{Completion, Outcome, Promise};

use super::context::{CacheOwner, RequestContext};
use super::shared_run::{Answer, LaterCaller, Shareable, SharedAnswer, copy_of};
use super::subscribers::{RunInFlight, Subscribers};
use crate::cancel::{CallHandle, HandleOfCall};
use crate::error::{Cause, CommandError, contain};
use crate::key::Key;

/// Sends the result of a run to the calls that share it.
pub(crate) trait RunOwner<T, E>: Send {
    /// Returns the callers of the run.
    fn callers(&self) -> &Subscribers;
    /// Prepares a run on the thread of its caller. `run` cancels it when no caller is left; `handle`
    /// ends the interest of its own caller.
    fn execute_here(&mut self, run: &HandleOfCall, handle: Option<&HandleOfCall>, is_attempt: bool);
    /// Records that the calling thread is going to wait for the run, which does not exist yet.
    /// `handle` ends the wait through `token`.
    fn begin_wait(&mut self, handle: &HandleOfCall, token: &CancelToken, is_attempt: bool);
    fn complete_copies(self: Box<Self>, answer: &Answer<T, E>);
    /// Ends the run without a result: calls that share it fail as cancelled, and the next call runs
    /// again.
    fn forget(self: Box<Self>);
    /// Connects `run`, which was started, with the calls that share it. Returns the copy of the
    /// caller that has started it. `run_handle` cancels the run itself.
    fn start(
        self: Box<Self>,
        run: Completion<T, CommandError<E>>,
        run_handle: CallHandle,
    ) -> Box<dyn SharedAnswer<T, E>>
    where
        T: Send + 'static,
        E: Send + 'static;
}

/// The call that executes the run for all calls that share it.
pub(super) struct FirstCaller<T: Send + Sync + 'static, E: Send + Sync + 'static> {
    pub(super) promise: Promise<T, CommandError<E>>,
    pub(super) copies: LaterCaller<T, E>,
    pub(super) context: RequestContext,
    pub(super) key: String,
    pub(super) entry: (CacheOwner, u64),
}

impl<T: Shareable, E: Shareable> RunOwner<T, E> for FirstCaller<T, E> {
    fn callers(&self) -> &Subscribers {
        &self.copies.interest.callers
    }

    fn execute_here(
        &mut self,
        run: &HandleOfCall,
        handle: Option<&HandleOfCall>,
        is_attempt: bool,
    ) {
        let interest = &mut self.copies.interest;
        interest.callers.begun_by(run);
        interest.callers.set_run(Some(RunInFlight {
            handle: run.handle(),
            end: Arc::new(|| ()),
        }));
        if let Some(handle) = handle {
            interest.execute_for(handle, is_attempt);
        }
    }

    fn begin_wait(&mut self, handle: &HandleOfCall, token: &CancelToken, is_attempt: bool) {
        // Nothing waits for the caller through a run that does not exist yet.
        self.copies.begin_wait();
        self.copies.enter(handle, token, is_attempt);
    }

    fn complete_copies(self: Box<Self>, answer: &Answer<T, E>) {
        self.copies.interest.callers.set_run(None);
        // The `Clone` is user code. A panic in it must not cost this call its own result.
        match contain(|| answer.clone()) {
            // Cannot have been cancelled: the shared reader is private to this module.
            Ok(copy) => drop(self.promise.complete(copy)),
            Err(_) => self.forget(),
        }
    }

    fn forget(self: Box<Self>) {
        let FirstCaller {
            promise,
            copies,
            context,
            key,
            entry,
        } = *self;
        copies.interest.callers.set_run(None);
        forget(promise, &context, (&copies.command, &key), entry);
    }

    fn start(
        self: Box<Self>,
        run: Completion<T, CommandError<E>>,
        run_handle: CallHandle,
    ) -> Box<dyn SharedAnswer<T, E>> {
        let FirstCaller {
            promise,
            copies,
            context,
            key,
            entry,
        } = *self;
        let (callers, command) = (Arc::clone(&copies.interest.callers), copies.command.clone());
        let run = run.share().ok();
        let run = run.expect("the outcome of a call that has just begun is not taken yet");
        if !run.is_done() {
            let ends = run.clone();
            let end = Arc::new(move || {
                ends.cancel();
            });
            let handle = run_handle;
            callers.set_run(Some(RunInFlight { handle, end }));
        }
        run.on_complete(move |outcome| {
            // The handle of a cancelled run stays: its work may still be interrupted.
            if !matches!(outcome, Outcome::Cancelled) {
                callers.set_run(None);
            }
            match outcome {
                Outcome::Cancelled => forget(promise, &context, (&command, &key), entry),
                // Cannot have been cancelled: the shared reader is private to this module.
                outcome => drop(promise.complete(copy_of(outcome, &command))),
            }
        });
        Box::new(copies)
    }
}

/// Removes a run without a result from the cache, and fails the calls that share it.
fn forget<T: Send + 'static, E: Send + 'static>(
    promise: Promise<T, CommandError<E>>,
    context: &RequestContext,
    (command, key): (&Key, &str),
    (owner, mine): (CacheOwner, u64),
) {
    // Removes only this entry, not one that a later call stored after this one was cleared.
    context.forget(owner, (command, key), |number| number == mine);
    let error = CommandError::new(command, Cause::Cancelled);
    let _ = promise.fail(error);
}
