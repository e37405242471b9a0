//! The caller that executes a shared run, and passes its result to the others.

use std::sync::Arc;

use tidegate_core::CancelToken;
use tidegate_promise::{Completion, Outcome, Promise};

use super::context::{CacheOwner, RequestContext};
use super::shared_run::{Answer, LaterCaller, SharedAnswer, copy_of};
use super::subscribers::{RunInFlight, WaitInRun};
use super::wait_graph::RunId;
use crate::cancel::{CallHandle, HandleOfCall};
use crate::error::{Cause, CommandError, contain};
use crate::key::Key;

/// Sends the result of a run to the calls that share it.
pub(crate) trait RunOwner<T, E>: Send {
    /// Returns the id of the run.
    fn id(&self) -> RunId;
    /// Sets the handle that tells when the work of the run begins, before it can begin.
    fn begun_by(&self, run: &HandleOfCall);
    /// Prepares a run on the thread of its caller. `run` cancels it when no caller is left; `handle`
    /// ends the interest of its own caller.
    fn execute_here(&mut self, run: &HandleOfCall, handle: Option<&HandleOfCall>, is_attempt: bool);
    /// Records that the calling thread is going to wait for the run, which does not exist yet.
    /// `handle` ends the wait through `token`.
    fn begin_wait(
        &mut self,
        handle: &HandleOfCall,
        token: &CancelToken,
        is_attempt: bool,
    ) -> WaitInRun;
    /// Closes the run for other callers, unless there are some. Returns `true` if there are none.
    fn close_if_alone(&self) -> bool;
    fn complete_copies(self: Box<Self>, answer: &Answer<T, E>);
    /// Ends the run without a result: calls that share it fail as cancelled, and the next call runs
    /// again.
    fn forget(self: Box<Self>);
    /// Returns the completion of the call that executes the run, after `run` was started. It is one
    /// of the copies, and `handle` cancels it. `run_handle` cancels the run itself.
    fn completion_of(
        self: Box<Self>,
        run: Completion<T, CommandError<E>>,
        run_handle: CallHandle,
        handle: Option<HandleOfCall>,
    ) -> Completion<T, CommandError<E>>
    where
        T: Send + 'static,
        E: Send + 'static;
    /// Returns the copy of a caller that is going to wait for the run that it has started.
    fn copy_of(
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

impl<T, E> RunOwner<T, E> for FirstCaller<T, E>
where
    T: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + 'static,
{
    fn id(&self) -> RunId {
        self.copies.interest.callers.id
    }

    fn begun_by(&self, run: &HandleOfCall) {
        self.copies.interest.callers.begun_by(run);
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
            interest.end_by(handle, is_attempt);
        }
    }

    fn begin_wait(
        &mut self,
        handle: &HandleOfCall,
        token: &CancelToken,
        is_attempt: bool,
    ) -> WaitInRun {
        // Nothing waits for the caller through a run that does not exist yet.
        self.copies.begin_wait();
        self.copies.enter(handle, token, is_attempt)
    }

    fn close_if_alone(&self) -> bool {
        self.copies.interest.callers.close_if_alone()
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

    fn completion_of(
        self: Box<Self>,
        run: Completion<T, CommandError<E>>,
        run_handle: CallHandle,
        handle: Option<HandleOfCall>,
    ) -> Completion<T, CommandError<E>> {
        let (copies, connect) = self.start(run, run_handle);
        let mine = Box::new(copies).completion(handle.as_ref()).0;
        connect();
        mine
    }

    fn copy_of(
        self: Box<Self>,
        run: Completion<T, CommandError<E>>,
        run_handle: CallHandle,
    ) -> Box<dyn SharedAnswer<T, E>> {
        let (copies, connect) = self.start(run, run_handle);
        connect();
        Box::new(copies)
    }
}

impl<T, E> FirstCaller<T, E>
where
    T: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + 'static,
{
    /// Returns the copy of this caller, and the function that connects `run`, which was started,
    /// with all copies.
    fn start(
        self,
        run: Completion<T, CommandError<E>>,
        run_handle: CallHandle,
    ) -> (LaterCaller<T, E>, impl FnOnce() + use<T, E>) {
        let FirstCaller {
            promise,
            copies,
            context,
            key,
            entry,
        } = self;
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
        let connect = move || {
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
        };
        (copies, connect)
    }
}

/// Removes a run without a result from the cache, and fails the calls that share it.
fn forget<T, E>(
    promise: Promise<T, CommandError<E>>,
    context: &RequestContext,
    (command, key): (&Key, &str),
    (owner, mine): (CacheOwner, u64),
) where
    T: Send + 'static,
    E: Send + 'static,
{
    // Removes only this entry, not one that a later call stored after this one was cleared.
    context.forget(owner, (command, key), |number| number == mine);
    let error = CommandError::new(command, Cause::Cancelled);
    let _ = promise.fail(error);
}
