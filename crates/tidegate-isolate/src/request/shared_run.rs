//! A run that several calls of one request share.
//!
//! Each call receives its copy of the result in the way it was made: by a blocking wait, through a
//! completion, or as a future. So no call blocks a thread that must not wait.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::internal::WaitEdge;
use tidegate_core::{CancelToken, Executor};
use tidegate_promise::{
    Completion, Outcome, Promise, SharedCompletion, WaitError, promise_on, promise_with_error,
};

use super::context::RequestContext;
use super::log::LogEntry;
use super::subscribers::{Subscribers, Subscription};
use super::wait_graph;
use crate::cancel::HandleOfCall;
use crate::error::{Cause, CommandError, Rejection};
use crate::event::{Event, EventSet};
use crate::key::Key;
use crate::lock::lock;

pub(crate) type Answer<T, E> = Result<T, CommandError<E>>;
/// The bound of results and errors that callers share.
pub(crate) trait Shareable: Clone + Send + Sync + 'static {}

impl<T: Clone + Send + Sync + 'static> Shareable for T {}

pub(crate) type SharedFuture<T, E> = Pin<Box<dyn Future<Output = Answer<T, E>> + Send>>;

/// A shared run whose result can be read.
pub(crate) trait SharedAnswer<T, E>: Send {
    /// Makes a reader of the result record its call in the log of this request.
    fn log_into(&mut self, context: RequestContext);
    /// Records that the calling thread, or a future that it polls, waits for the result. Returns
    /// `false` if the wait would deadlock.
    fn begin_wait(&mut self) -> bool;
    /// Returns `true` if there is a result already.
    fn is_done(&self) -> bool;
    /// Registers the wait of a blocked caller, which `handle` ends through `token`.
    fn enter(&mut self, handle: &HandleOfCall, token: &CancelToken, is_attempt: bool);
    /// Blocks until there is a result. Returns `None` if the token or the caller's handle is
    /// cancelled first.
    fn wait(self: Box<Self>, token: &CancelToken) -> Option<Answer<T, E>>;
    /// Returns a completion and the slot of its promise. The first to take the promise completes
    /// it. `handle` cancels the completion.
    fn completion(
        self: Box<Self>,
        handle: Option<&HandleOfCall>,
    ) -> (Completion<T, CommandError<E>>, Slot<T, E>)
    where
        T: Send + 'static,
        E: Send + 'static;
    /// Returns a future of the result. `handle` tells whether the run has begun.
    fn future(
        self: Box<Self>,
        handle: Option<&HandleOfCall>,
        is_attempt: bool,
    ) -> SharedFuture<T, E>;
}

/// A run that several calls share.
#[derive(Clone)]
pub(super) struct Run<T: Send + Sync + 'static, E: Send + Sync + 'static> {
    pub(super) answer: SharedCompletion<T, CommandError<E>>,
    pub(super) callers: Arc<Subscribers>,
}

/// A reader of a run that another call executes.
pub(super) struct LaterCaller<T: Send + Sync + 'static, E: Send + Sync + 'static> {
    answer: SharedCompletion<T, CommandError<E>>,
    pub(super) interest: Subscription,
    waits: Option<Vec<WaitEdge>>,
    pub(super) command: Key,
    log: Option<RequestContext>,
}

impl<T: Send + Sync + 'static, E: Send + Sync + 'static> LaterCaller<T, E> {
    /// Creates a reader of `run` for a caller that has joined it, or created it.
    pub(super) fn new(run: Run<T, E>, command: &Key) -> Self {
        Self {
            answer: run.answer,
            interest: Subscription::new(run.callers),
            waits: None,
            command: command.clone(),
            log: None,
        }
    }
}

impl<T: Shareable, E: Shareable> SharedAnswer<T, E> for LaterCaller<T, E> {
    fn log_into(&mut self, context: RequestContext) {
        self.log = Some(context);
    }

    fn begin_wait(&mut self) -> bool {
        if !self.answer.is_done() {
            self.waits = wait_graph::wait_for(self.interest.callers.id);
            return self.waits.is_some();
        }
        true
    }

    fn is_done(&self) -> bool {
        self.answer.is_done()
    }

    fn enter(&mut self, handle: &HandleOfCall, token: &CancelToken, is_attempt: bool) {
        let token = token.clone();
        let caller = self.interest.caller(move || {
            token.cancel_without_hooks();
            true
        });
        caller.join(handle, is_attempt);
    }

    fn wait(self: Box<Self>, token: &CancelToken) -> Option<Answer<T, E>> {
        let answer = match self.answer.peek() {
            Some(outcome) => copy_of(outcome, &self.command),
            None => match self.answer.wait_with_cancel(token) {
                Err(WaitError::Interrupted) => return None,
                // The end of a run without callers reaches this caller, too.
                _ if self.interest.has_left() => return None,
                waited => answer_of(waited, &self.command),
            },
        };
        note(self.log.as_ref(), &self.command, &answer);
        Some(answer)
    }

    fn completion(
        self: Box<Self>,
        handle: Option<&HandleOfCall>,
    ) -> (Completion<T, CommandError<E>>, Slot<T, E>) {
        let (promise, copy) = promise_at::<T, E>(self.answer.home().cloned());
        let Self {
            answer,
            mut interest,
            command,
            log,
            ..
        } = *self;
        if let Some(outcome) = answer.peek() {
            // Read directly, even if the completing thread is still notifying other readers.
            let answer = copy_of(outcome, &command);
            note(log.as_ref(), &command, &answer);
            let _ = promise.complete(answer);
            if let Some(handle) = handle.filter(|_| interest.callers.has_begun()) {
                handle.note_begun();
            }
            return (copy, Slot::default());
        }
        let slot = Slot::default();
        let caller = handle.map(|handle| {
            let slot = Arc::clone(&slot);
            let cancel = move || take(&slot).map(Promise::cancel).is_some();
            (handle, interest.caller(cancel))
        });
        promise.on_cancel(move || drop(interest));
        *lock(&slot) = Some(promise);
        let mine = Arc::clone(&slot);
        answer.on_complete(move |outcome| {
            let Some(promise) = take(&mine) else {
                return;
            };
            let answer = copy_of(outcome, &command);
            note(log.as_ref(), &command, &answer);
            // Fails if the caller has cancelled its copy, which then needs no result.
            let _ = promise.complete(answer);
        });
        if let Some((handle, caller)) = caller {
            caller.join(handle, false);
        }
        (copy, slot)
    }

    fn future(
        self: Box<Self>,
        handle: Option<&HandleOfCall>,
        is_attempt: bool,
    ) -> SharedFuture<T, E> {
        if let Some(handle) = handle {
            self.interest.show_to(handle, is_attempt);
        }
        Box::pin(async move {
            let copy = *self;
            let answer = answer_of(copy.answer.clone().await, &copy.command);
            note(copy.log.as_ref(), &copy.command, &answer);
            answer
        })
    }
}

/// The promise of a copy, until it is taken.
pub(crate) type Slot<T, E> = Arc<Mutex<Option<Promise<T, CommandError<E>>>>>;

/// Takes the promise of a copy, if it was not taken before.
pub(crate) fn take<T: Send + 'static, E: Send + 'static>(
    slot: &Slot<T, E>,
) -> Option<Promise<T, CommandError<E>>> {
    lock(slot).take()
}

/// Creates a promise at `home`.
pub(super) fn promise_at<T: Send + 'static, E: Send + 'static>(
    home: Option<Arc<dyn Executor>>,
) -> (Promise<T, CommandError<E>>, Completion<T, CommandError<E>>) {
    match home {
        Some(home) => promise_on(home),
        None => promise_with_error(),
    }
}

fn answer_of<T, E>(waited: Result<T, WaitError<CommandError<E>>>, command: &Key) -> Answer<T, E> {
    waited.map_err(|error| match error {
        WaitError::Failed(error) => error,
        WaitError::Refused(why) => {
            let refused = match why.is_deadlock() {
                true => Rejection::Deadlock,
                false => Rejection::Waiting,
            };
            CommandError::new(command, Cause::Rejected(refused))
        }
        _ => CommandError::new(command, Cause::Cancelled),
    })
}

/// Returns a copy of the result of a run.
pub(super) fn copy_of<T, E>(outcome: Outcome<&T, &CommandError<E>>, command: &Key) -> Answer<T, E>
where
    T: Clone,
    E: Clone,
{
    match outcome {
        Outcome::Success(value) => Ok(value.clone()),
        Outcome::Failure(error) => Err(error.clone()),
        Outcome::Cancelled => Err(CommandError::new(command, Cause::Cancelled)),
    }
}

/// Records a copy in the log of its request.
fn note<T, E>(log: Option<&RequestContext>, command: &Key, answer: &Answer<T, E>) {
    let Some(log) = log else {
        return;
    };
    let events = answer.as_ref().err();
    let events = events.map_or_else(EventSet::none, CommandError::events);
    log.note(LogEntry {
        command: command.clone(),
        events: cached_events(events),
        took: Duration::ZERO,
    });
}

/// Returns the events that a call records in the log when its result came from the cache.
fn cached_events(events: EventSet) -> EventSet {
    let mut events = events;
    events.add(Event::ResponseFromCache);
    events
}
