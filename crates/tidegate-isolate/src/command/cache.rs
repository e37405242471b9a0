//! Calls of one request that share a run.
//!
//! The first call with a key runs, and puts into the cache of its request what the others get
//! their copies from; they never wait on a thread that must not, since each takes its copy the way
//! it was called: by waiting, through a completion, or as a future.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tidegate_promise::{Completion, Outcome, Promise, SharedCompletion, WaitError, promise_of};

use super::call::Options;
use super::state::{CACHES, LOGS};
use super::{Call, CommandError, Shared};
use crate::context::{CacheOwner, Logged, RequestContext, cached_events};
use crate::{Cause, Event, Events, Key, Refused, Stage};

pub(super) type Answer<T, E> = Result<T, CommandError<E>>;
pub(super) type SharedFuture<T, E> = Pin<Box<dyn Future<Output = Answer<T, E>> + Send>>;

/// The owner of an entry, and the key of its command.
type Whose<'a> = (CacheOwner, &'a Key);

/// A cache key, and how to share an answer: known only where the answer can be cloned.
pub(super) struct CacheUse<T, E> {
    key: String,
    look_up: fn(&RequestContext, Whose<'_>, &str) -> Looked<T, E>,
}

/// What the cache says.
pub(super) enum Looked<T, E> {
    /// Somebody runs or ran it.
    Hit(Box<dyn Copies<T, E>>),
    /// This call runs it.
    Miss(Box<dyn Tells<T, E>>),
}

/// A run whose answer can be had.
pub(super) trait Copies<T, E>: Send {
    /// Whoever takes a copy is noted in the log of this request.
    fn log_into(&mut self, context: RequestContext);
    fn wait(&self) -> Answer<T, E>;
    fn completion(&self) -> Completion<T, CommandError<E>>
    where
        T: Send + 'static,
        E: Send + 'static;
    fn future(&self) -> SharedFuture<T, E>;
}

/// Where the answer of a run is told to those who share it.
pub(super) trait Tells<T, E>: Send {
    fn tell(self: Box<Self>, answer: &Answer<T, E>);
    /// The run ends without an answer: who shares it hears so, and the next call runs again.
    fn forget(self: Box<Self>);
    /// The completion of the call that runs, once `run` is under way: one copy among the others.
    fn completion_of(
        self: Box<Self>,
        run: Completion<T, CommandError<E>>,
    ) -> Completion<T, CommandError<E>>
    where
        T: Send + 'static,
        E: Send + 'static;
}

impl<T, E> Call<'_, T, E>
where
    T: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + 'static,
{
    /// Shares one run with all calls of this command that have the same key in the same request,
    /// also while it runs. Errors are shared too. A run that is a future ends when its own caller
    /// drops it: who shares it then hears that it was cancelled, and the next call runs again.
    pub fn cache_key(mut self, key: impl fmt::Display) -> Self {
        self.options.set_cache(CacheUse {
            key: key.to_string(),
            look_up: look_up::<T, E>,
        });
        self
    }
}

impl<T: Send + 'static, E: Send + 'static> Shared<T, E> {
    /// Looks for a run to share; none if the call did not ask for one.
    pub(super) fn look_up(
        &self,
        options: &mut Options<T, E>,
    ) -> Result<Option<Looked<T, E>>, CommandError<E>> {
        let state = &*self.state;
        let Some(cache) = options.take_cache() else {
            return Ok(None);
        };
        if state.flags() & CACHES == 0 {
            return Ok(None);
        }
        let context = options.context.clone().or_else(RequestContext::current);
        let Some(context) = context else {
            return Err(self.misused(options, Cause::NoRequest));
        };
        let mut looked = (cache.look_up)(&context, (state.cache_owner, &state.key), &cache.key);
        if let Looked::Hit(copies) = &mut looked {
            let now = state.now();
            state.metrics.count(now, Event::ResponseFromCache);
            let _ = state.hook(Stage::CacheHit);
            state.plugins.event(&state.key, Event::ResponseFromCache);
            options.tell(Event::ResponseFromCache);
            if state.flags() & LOGS != 0 {
                copies.log_into(context);
            }
        }
        Ok(Some(looked))
    }
}

fn look_up<T, E>(context: &RequestContext, (owner, command): Whose<'_>, key: &str) -> Looked<T, E>
where
    T: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + 'static,
{
    let made = context.cached(owner, (command, key), || {
        let (promise, answer) = promise_of::<T, CommandError<E>>();
        let answer = answer.share().ok();
        let answer = answer.expect("nobody has taken the outcome of a new promise");
        (answer.clone(), (promise, answer))
    });
    let copies = |answer| Copy {
        answer,
        command: command.clone(),
        log: None,
    };
    match made {
        Ok(answer) => Looked::Hit(Box::new(copies(answer))),
        Err(((promise, answer), number)) => Looked::Miss(Box::new(First {
            promise,
            entry: (owner, number),
            copies: copies(answer),
            context: context.clone(),
            key: key.to_owned(),
        })),
    }
}

/// What somebody else runs.
struct Copy<T: Send + Sync + 'static, E: Send + Sync + 'static> {
    answer: SharedCompletion<T, CommandError<E>>,
    command: Key,
    log: Option<RequestContext>,
}

impl<T, E> Copies<T, E> for Copy<T, E>
where
    T: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + 'static,
{
    fn log_into(&mut self, context: RequestContext) {
        self.log = Some(context);
    }

    fn wait(&self) -> Answer<T, E> {
        let answer = match self.answer.peek() {
            Some(outcome) => copy_of(outcome, &self.command),
            None => answer_of(self.answer.wait(), &self.command),
        };
        note(self.log.as_ref(), &self.command, &answer);
        answer
    }

    fn completion(&self) -> Completion<T, CommandError<E>> {
        let (promise, copy) = promise_of();
        let (command, log) = (self.command.clone(), self.log.clone());
        self.answer.on_complete(move |outcome| {
            let answer = copy_of(outcome, &command);
            note(log.as_ref(), &command, &answer);
            // Whoever has cancelled its copy wants none.
            let _ = promise.complete(answer);
        });
        copy
    }

    fn future(&self) -> SharedFuture<T, E> {
        let (answer, command) = (self.answer.clone(), self.command.clone());
        let log = self.log.clone();
        Box::pin(async move {
            let answer = answer_of(answer.await, &command);
            note(log.as_ref(), &command, &answer);
            answer
        })
    }
}

/// The call that runs for the others.
struct First<T: Send + Sync + 'static, E: Send + Sync + 'static> {
    promise: Promise<T, CommandError<E>>,
    copies: Copy<T, E>,
    context: RequestContext,
    key: String,
    entry: (CacheOwner, u64),
}

impl<T, E> Tells<T, E> for First<T, E>
where
    T: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + 'static,
{
    fn tell(self: Box<Self>, answer: &Answer<T, E>) {
        // Nobody can have cancelled: the shared reader keeps that to itself.
        let _ = self.promise.complete(answer.clone());
    }

    fn forget(self: Box<Self>) {
        // Not what a later call has put there after this entry was cleared.
        let (owner, mine) = self.entry;
        let of = (&self.copies.command, self.key.as_str());
        self.context.forget(owner, of, |number| number == mine);
        let error = CommandError::new(&self.copies.command, Cause::Cancelled);
        let _ = self.promise.fail(error);
    }

    fn completion_of(
        self: Box<Self>,
        run: Completion<T, CommandError<E>>,
    ) -> Completion<T, CommandError<E>> {
        let mine = self.copies.completion();
        run.finally(move |outcome| match outcome {
            Outcome::Cancelled => self.forget(),
            outcome => {
                let answer = copy_of(outcome, &self.copies.command);
                self.tell(&answer);
            }
        });
        mine
    }
}

fn answer_of<T, E>(waited: Result<T, WaitError<CommandError<E>>>, command: &Key) -> Answer<T, E> {
    waited.map_err(|error| match error {
        WaitError::Failed(error) => error,
        refused if refused.is_refused() => {
            CommandError::new(command, Cause::Rejected(Refused::Waiting))
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

/// Writes a copy into the log of its request.
fn note<T, E>(log: Option<&RequestContext>, command: &Key, answer: &Answer<T, E>) {
    let Some(log) = log else {
        return;
    };
    let events = answer.as_ref().err();
    let events = events.map_or_else(Events::none, CommandError::events);
    log.note(Logged {
        command: command.clone(),
        events: cached_events(events),
        took: Duration::ZERO,
    });
}
