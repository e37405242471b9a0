//! Calls of one request that share a run.
//!
//! The first call with a cache key runs, and stores an entry in the cache of its request from which
//! later calls copy the result. Each call receives its copy in the way it was made: by a blocking
//! wait, through a completion, or as a future. So no call blocks a thread that must not wait.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_core::{CancelToken, Executor};
use tidegate_promise::{
    Completion, Outcome, Promise, SharedCompletion, WaitError, promise_on, promise_with_error,
};

use super::context::{CacheOwner, RequestContext};
use super::log::LogEntry;
use super::shared_run_home::home_of;
use super::wait_graph::{self, RunId, Waits};
use crate::bulkhead::Home;
use crate::error::{Cause, CommandError, Rejection};
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
        whose: CacheScope<'_>,
    ) -> CacheLookup<T, E> {
        (self.look_up)(context, whose, &self.key)
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
    /// Blocks until there is a result. Returns `None` if the token is tripped first.
    fn wait(self: Box<Self>, token: &CancelToken) -> Option<Answer<T, E>>;
    /// Returns a completion and the slot of its promise. The first to take the promise completes
    /// it.
    fn completion(self: Box<Self>) -> (Completion<T, CommandError<E>>, Slot<T, E>)
    where
        T: Send + 'static,
        E: Send + 'static;
    fn future(self: Box<Self>) -> SharedFuture<T, E>;
}

/// Sends the result of a run to the calls that share it.
pub(crate) trait RunOwner<T, E>: Send {
    /// Returns the id of the run.
    fn id(&self) -> RunId;
    fn tell(self: Box<Self>, answer: &Answer<T, E>);
    /// Ends the run without a result: calls that share it fail as cancelled, and the next call runs
    /// again.
    fn forget(self: Box<Self>);
    /// Returns the completion of the call that executes the run, after `run` was started. It is one
    /// of the copies.
    fn completion_of(
        self: Box<Self>,
        run: Completion<T, CommandError<E>>,
    ) -> Completion<T, CommandError<E>>
    where
        T: Send + 'static,
        E: Send + 'static;
}

fn look_up<T, E>(context: &RequestContext, whose: CacheScope<'_>, key: &str) -> CacheLookup<T, E>
where
    T: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + 'static,
{
    let CacheScope {
        owner,
        command,
        home,
    } = whose;
    let usable = |run: &Run<T, E>| run.answer.is_done() || run.callers.join();
    let made = context.cached_if(owner, (command, key), usable, || {
        let callers = Arc::new(Subscribers::new());
        let home = home_of(callers.id, command, home);
        let (promise, answer) = promise_at::<T, E>(Some(home));
        let answer = answer.share().ok();
        let answer = answer.expect("nobody has taken the outcome of a new promise");
        let run = Run { answer, callers };
        (run.clone(), (promise, run))
    });
    let copies = |run: Run<T, E>| LaterCaller {
        answer: run.answer,
        interest: Subscription(run.callers),
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

/// The number of callers that want the result of a run, and how to cancel the run when none is
/// left.
struct Subscribers {
    id: RunId,
    /// Once zero, it stays zero.
    count: AtomicUsize,
    cancel: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Subscribers {
    /// Starts with one caller: the call that creates the run.
    fn new() -> Self {
        Self {
            id: RunId::new(),
            count: AtomicUsize::new(1),
            cancel: Mutex::new(None),
        }
    }

    /// Adds a caller. Returns `false` if the last caller has gone, so the run is ending.
    fn join(&self) -> bool {
        let more = |count: usize| (count > 0).then_some(count + 1);
        // Relaxed: only the number matters.
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        self.count.fetch_update(set, fetch, more).is_ok()
    }

    /// Sets the closure that cancels the run, or `None` if the run has ended.
    fn set_cancel(&self, cancel: Option<Box<dyn FnOnce() + Send>>) {
        let mut mine = self.cancel.lock().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *mine, cancel);
        drop(mine);
        drop(old);
    }
}

/// One caller's interest in a run. Dropping the last one cancels the run, if it is still possible.
struct Subscription(Arc<Subscribers>);

impl Drop for Subscription {
    fn drop(&mut self) {
        // A hit on a finished run did not join; there is nothing to cancel then.
        let less = |count: usize| count.checked_sub(1);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        if self.0.count.fetch_update(set, fetch, less) == Ok(1) {
            let cancel = self.0.cancel.lock();
            let cancel = cancel.unwrap_or_else(PoisonError::into_inner).take();
            if let Some(cancel) = cancel {
                cancel();
            }
        }
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
            self.waits = wait_graph::wait_for(self.interest.0.id);
            return self.waits.is_some();
        }
        true
    }

    fn is_done(&self) -> bool {
        self.answer.is_done()
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

    fn completion(self: Box<Self>) -> (Completion<T, CommandError<E>>, Slot<T, E>) {
        let (promise, copy) = promise_at::<T, E>(self.answer.home().cloned());
        let Self {
            answer,
            interest,
            command,
            log,
            ..
        } = *self;
        if let Some(outcome) = answer.peek() {
            // Read directly, even if the completing thread is still notifying other readers.
            let answer = copy_of(outcome, &command);
            note(log.as_ref(), &command, &answer);
            let _ = promise.complete(answer);
            return (copy, Slot::default());
        }
        promise.on_cancel(move || drop(interest));
        let slot = Arc::new(Mutex::new(Some(promise)));
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
        self.copies.interest.0.id
    }

    fn tell(self: Box<Self>, answer: &Answer<T, E>) {
        // Cannot have been cancelled: the shared reader is private to this module.
        let _ = self.promise.complete(answer.clone());
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
    ) -> Completion<T, CommandError<E>> {
        let FirstCaller {
            promise,
            copies,
            context,
            key,
            entry,
        } = *self;
        let (callers, command) = (Arc::clone(&copies.interest.0), copies.command.clone());
        let run = run.share().ok();
        let run = run.expect("nobody has taken the outcome of a call that has just begun");
        if !run.is_done() {
            let ends = run.clone();
            let cancel = move || {
                ends.cancel();
            };
            callers.set_cancel(Some(Box::new(cancel)));
        }
        let mine = Box::new(copies).completion().0;
        run.on_complete(move |outcome| {
            callers.set_cancel(None);
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
                true => Rejection::Circle,
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
