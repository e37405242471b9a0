//! Calls of one request that share a run.
//!
//! The first call with a cache key runs, and stores an entry in the cache of its request from which
//! later calls copy the result. Each call receives its copy in the way it was made: by a blocking
//! wait, through a completion, or as a future. So no call blocks a thread that must not wait.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_core::{CancelToken, Executor};
use tidegate_promise::{
    Completion, Outcome, Promise, SharedCompletion, WaitError, promise_on, promise_with_error,
};

use super::context::{CacheOwner, RequestContext};
use super::log::LogEntry;
use super::shared_run_home::home_of;
use super::subscribers::{RunInFlight, Subscribers, Subscription, WaitInRun};
use super::wait_graph::{self, RunId, Waits};
use crate::bulkhead::Home;
use crate::cancel::{CallHandle, CancelOutcome, Cancellable, HandleOfCall, Interrupt};
use crate::error::{Cause, CommandError, Rejection, contain};
use crate::event::{Event, EventSet};
use crate::key::Key;

pub(crate) type Answer<T, E> = Result<T, CommandError<E>>;
pub(crate) type SharedFuture<T, E> = Pin<Box<dyn Future<Output = Answer<T, E>> + Send>>;

/// The owner of a cache entry, the key of its command, and the home that checks waits for it.
pub(crate) struct CacheScope<'a> {
    pub(crate) owner: CacheOwner,
    pub(crate) command: &'a Key,
    pub(crate) home: Option<&'a Home>,
}

/// A cache key, and the function that shares a result. Created only where the result can be cloned.
pub(crate) struct CacheKey<T, E> {
    key: String,
    look_up: fn(&RequestContext, CacheScope<'_>, &str) -> CacheLookup<T, E>,
}

impl<T, E> CacheKey<T, E> {
    /// Creates a cache use for this key, whose run may be shared.
    pub(crate) fn of(key: String) -> Self
    where
        T: Clone + Send + Sync + 'static,
        E: Clone + Send + Sync + 'static,
    {
        Self {
            key,
            look_up: look_up::<T, E>,
        }
    }

    /// Finds a run in the cache of a request, or stores one that this call must execute.
    pub(crate) fn look_up(
        &self,
        context: &RequestContext,
        scope: CacheScope<'_>,
    ) -> CacheLookup<T, E> {
        (self.look_up)(context, scope, &self.key)
    }
}

/// The result of a cache lookup.
pub(crate) enum CacheLookup<T, E> {
    /// Another call executes or executed the run.
    Hit(Box<dyn SharedAnswer<T, E>>),
    /// This call must execute the run.
    Miss(Box<dyn RunOwner<T, E>>),
    /// The run is in flight, and waiting for it would deadlock.
    WouldDeadlock,
}

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
    fn enter(&mut self, handle: &HandleOfCall, token: &CancelToken, is_attempt: bool) -> WaitInRun;
    /// Blocks until there is a result. Returns `None` if the token is cancelled first.
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
    fn future(self: Box<Self>) -> SharedFuture<T, E>;
}

/// Sends the result of a run to the calls that share it.
pub(crate) trait RunOwner<T, E>: Send {
    /// Returns the id of the run.
    fn id(&self) -> RunId;
    /// Sets the handle that tells when the work of the run begins, before it can begin.
    fn begun_by(&self, run: &HandleOfCall);
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
}

fn look_up<T, E>(context: &RequestContext, scope: CacheScope<'_>, key: &str) -> CacheLookup<T, E>
where
    T: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + 'static,
{
    let CacheScope {
        owner,
        command,
        home,
    } = scope;
    let usable = |run: &Run<T, E>| run.answer.is_done() || run.callers.join();
    let made = context.cached_if(owner, (command, key), usable, || {
        let callers = Arc::new(Subscribers::new());
        let home = home_of(callers.id, command, home);
        let (promise, answer) = promise_at::<T, E>(Some(home));
        let answer = answer.share().ok();
        let answer = answer.expect("the outcome of a new promise is not taken yet");
        let run = Run { answer, callers };
        (run.clone(), (promise, run))
    });
    let copies = |run: Run<T, E>| LaterCaller {
        answer: run.answer,
        interest: Subscription::new(run.callers),
        waits: None,
        command: command.clone(),
        log: None,
    };
    match made {
        Ok(run) => CacheLookup::Hit(Box::new(copies(run))),
        Err(((promise, run), number)) => CacheLookup::Miss(Box::new(FirstCaller {
            promise,
            entry: (owner, number),
            copies: copies(run),
            context: context.clone(),
            key: key.to_owned(),
        })),
    }
}

/// A run that several calls share.
#[derive(Clone)]
struct Run<T: Send + Sync + 'static, E: Send + Sync + 'static> {
    answer: SharedCompletion<T, CommandError<E>>,
    callers: Arc<Subscribers>,
}

/// The completion of one caller that shares a run, as its handle cancels it.
struct SharedCopy<T: Send + 'static, E: Send + 'static> {
    slot: Slot<T, E>,
    says_no: Arc<AtomicBool>,
    callers: Arc<Subscribers>,
}

impl<T: Send + 'static, E: Send + 'static> Cancellable for SharedCopy<T, E> {
    fn cancel(&self, asked: Option<Interrupt>) -> CancelOutcome {
        let Some(promise) = take(&self.slot) else {
            self.callers.interrupt_left(asked);
            return CancelOutcome::TooLate;
        };
        let has_begun = self.callers.has_begun();
        let says_no = asked == Some(Interrupt::No);
        self.says_no.store(says_no, Ordering::Relaxed);
        // Drops the interest in the run.
        promise.cancel();
        match has_begun {
            true => CancelOutcome::Running,
            false => CancelOutcome::NotBegun,
        }
    }

    fn has_begun(&self) -> bool {
        self.callers.has_begun()
    }

    fn is_over(&self) -> bool {
        self.callers.run().is_none()
    }
}

/// A reader of a run that another call executes.
struct LaterCaller<T: Send + Sync + 'static, E: Send + Sync + 'static> {
    answer: SharedCompletion<T, CommandError<E>>,
    interest: Subscription,
    waits: Option<Waits>,
    command: Key,
    log: Option<RequestContext>,
}

impl<T, E> SharedAnswer<T, E> for LaterCaller<T, E>
where
    T: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + 'static,
{
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

    fn enter(&mut self, handle: &HandleOfCall, token: &CancelToken, is_attempt: bool) -> WaitInRun {
        self.interest.wait(handle, token, is_attempt)
    }

    fn wait(self: Box<Self>, token: &CancelToken) -> Option<Answer<T, E>> {
        let answer = match self.answer.peek() {
            Some(outcome) => copy_of(outcome, &self.command),
            None => match self.answer.wait_with_cancel(token) {
                Err(WaitError::Interrupted) => return None,
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
        let cancels = handle.map(|handle| {
            let says_no = interest.says_no();
            let (slot, callers) = (Arc::clone(&slot), Arc::clone(&interest.callers));
            let copy = SharedCopy {
                slot,
                says_no,
                callers,
            };
            (handle, Arc::new(copy))
        });
        promise.on_cancel(move || drop(interest));
        put(&slot, promise);
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
        if let Some((handle, cancels)) = cancels
            && let Err(asked) = handle.add(Arc::clone(&cancels) as _, false)
        {
            cancels.cancel(asked);
        }
        (copy, slot)
    }

    fn future(self: Box<Self>) -> SharedFuture<T, E> {
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

fn put<T, E>(slot: &Slot<T, E>, promise: Promise<T, CommandError<E>>)
where
    T: Send + 'static,
    E: Send + 'static,
{
    *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(promise);
}

/// Takes the promise of a copy, if it was not taken before.
pub(crate) fn take<T, E>(slot: &Slot<T, E>) -> Option<Promise<T, CommandError<E>>>
where
    T: Send + 'static,
    E: Send + 'static,
{
    slot.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// The call that executes the run for all calls that share it.
struct FirstCaller<T: Send + Sync + 'static, E: Send + Sync + 'static> {
    promise: Promise<T, CommandError<E>>,
    copies: LaterCaller<T, E>,
    context: RequestContext,
    key: String,
    entry: (CacheOwner, u64),
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

    fn complete_copies(self: Box<Self>, answer: &Answer<T, E>) {
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
        forget(promise, &context, (&copies.command, &key), entry);
    }

    fn completion_of(
        self: Box<Self>,
        run: Completion<T, CommandError<E>>,
        run_handle: CallHandle,
        handle: Option<HandleOfCall>,
    ) -> Completion<T, CommandError<E>> {
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
        let mine = Box::new(copies).completion(handle.as_ref()).0;
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
        mine
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

fn promise_at<T, E>(
    home: Option<Arc<dyn Executor>>,
) -> (Promise<T, CommandError<E>>, Completion<T, CommandError<E>>)
where
    T: Send + 'static,
    E: Send + 'static,
{
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

fn copy_of<T, E>(outcome: Outcome<&T, &CommandError<E>>, command: &Key) -> Answer<T, E>
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
