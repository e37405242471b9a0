//! One call: what differs from the others.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use tidegate_promise::{Completion, Outcome, SharedCompletion, WaitError, promise_of};
use tidegate_sync::{CancelToken, as_nanos};

use super::state::{CACHES, THREADS};
use super::{Command, CommandError, RunAsync};
use crate::bulkhead::Criticality;
use crate::context::{Logged, RequestContext, cached_events};
use crate::{Cause, Event, Events, Key, Stage};

/// What differs in one call.
pub(super) struct Options<T, E> {
    /// Nanoseconds, in place of the command's.
    pub(super) timeout: Option<u64>,
    pub(super) criticality: Criticality,
    pub(super) context: Option<RequestContext>,
    /// What few calls have, so that the others need not carry it along.
    pub(super) rare: Option<Box<Rare<T, E>>>,
    /// The call is one attempt of several: no fallback is tried.
    pub(super) is_attempt: bool,
}

pub(super) struct Rare<T, E> {
    pub(super) cache: Option<CacheUse<T, E>>,
    pub(super) fallback: Option<OwnFallback<T, E>>,
    pub(super) observer: Option<Box<dyn FnMut(Event) + Send>>,
}

impl<T, E> Options<T, E> {
    fn rare(&mut self) -> &mut Rare<T, E> {
        self.rare.get_or_insert_with(|| {
            Box::new(Rare {
                cache: None,
                fallback: None,
                observer: None,
            })
        })
    }

    fn take_cache(&mut self) -> Option<CacheUse<T, E>> {
        self.rare.as_mut()?.cache.take()
    }

    pub(super) fn take_fallback(&mut self) -> Option<OwnFallback<T, E>> {
        self.rare.as_mut()?.fallback.take()
    }

    /// Tells whoever observes this call.
    pub(super) fn tell(&mut self, event: Event) {
        let observer = self.rare.as_mut().and_then(|rare| rare.observer.as_mut());
        if let Some(observer) = observer {
            let _ = crate::plugin::contain(|| observer(event));
        }
    }
}

/// The options of a call, if it has any: most have none, and need not carry them along.
pub(super) struct Asked<'a, T, E>(pub(super) Option<&'a mut Options<T, E>>);

impl<T, E> Asked<'_, T, E> {
    pub(super) const NOTHING: Self = Self(None);

    #[inline]
    pub(super) fn timeout(&self) -> Option<u64> {
        self.0.as_ref().and_then(|options| options.timeout)
    }

    #[inline]
    pub(super) fn criticality(&self) -> Criticality {
        let options = self.0.as_ref();
        options.map_or(Criticality::Normal, |options| options.criticality)
    }

    #[inline]
    pub(super) fn context(&self) -> Option<&RequestContext> {
        self.0.as_ref()?.context.as_ref()
    }

    /// Whether nothing was asked for but a timeout or a criticality.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.0.as_ref().is_none_or(|options| {
            options.context.is_none() && options.rare.is_none() && !options.is_attempt
        })
    }

    #[inline]
    pub(super) fn has_observer(&self) -> bool {
        let rare = self.0.as_ref().and_then(|options| options.rare.as_ref());
        rare.is_some_and(|rare| rare.observer.is_some())
    }

    /// Calls `then` with the options, or with those of a call that asked for nothing.
    #[cold]
    pub(super) fn with<R>(self, then: impl FnOnce(&mut Options<T, E>) -> R) -> R {
        match self.0 {
            Some(options) => then(options),
            None => then(&mut Options::default()),
        }
    }
}

impl<T, E> Default for Options<T, E> {
    #[inline]
    fn default() -> Self {
        Self {
            timeout: None,
            criticality: Criticality::Normal,
            context: None,
            rare: None,
            is_attempt: false,
        }
    }
}

type OwnFallback<T, E> = Box<dyn FnOnce(&CommandError<E>) -> Result<T, E> + Send>;

/// A cache key, and how to share an answer: known only where the answer can be cloned.
pub(super) struct CacheUse<T, E> {
    key: String,
    look_up: fn(&RequestContext, &Key, &str) -> Looked<T, E>,
}

type Answer<T, E> = Result<T, CommandError<E>>;
type TellOthers<T, E> = Box<dyn FnOnce(&Answer<T, E>)>;

enum Looked<T, E> {
    /// Somebody runs or ran it: how to get a copy of the answer.
    Hit(Box<dyn FnOnce() -> Answer<T, E>>),
    /// This call runs it, and tells the others.
    Miss(TellOthers<T, E>),
}

/// A call of a [`Command`] that is about to be made.
///
/// ```
/// use std::time::Duration;
/// use tidegate_isolate::{Command, Criticality, Isolation};
///
/// let isolation = Isolation::builder().build()?;
/// let prices: Command<u32, String> =
///     Command::builder("prices").group("catalog").build(&isolation)?;
/// let price = prices
///     .call()
///     .timeout(Duration::from_millis(80))
///     .criticality(Criticality::High)
///     .fallback(|_why| Ok(7))
///     .run(|_cancel| Err("no prices today".to_owned()));
/// assert_eq!(price, Ok(7));
/// # Ok::<(), tidegate_isolate::Invalid>(())
/// ```
#[must_use = "a call does nothing until it is run"]
pub struct Call<'a, T, E> {
    pub(super) command: &'a Command<T, E>,
    pub(super) options: Options<T, E>,
}

impl<'a, T: Send + 'static, E: Send + 'static> Call<'a, T, E> {
    #[inline]
    pub(super) fn new(command: &'a Command<T, E>) -> Self {
        Self {
            command,
            options: Options::default(),
        }
    }

    /// How long this call may take.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(as_nanos(timeout));
        self
    }

    /// How much this call matters.
    pub fn criticality(mut self, criticality: Criticality) -> Self {
        self.options.criticality = criticality;
        self
    }

    /// The request that this call belongs to, in place of the calling thread's.
    pub fn context(mut self, context: &RequestContext) -> Self {
        self.options.context = Some(context.clone());
        self
    }

    /// Answers in place of the work, instead of the command's own fallback. It may own what it
    /// needs to know of the input.
    pub fn fallback<F>(mut self, fallback: F) -> Self
    where
        F: FnOnce(&CommandError<E>) -> Result<T, E> + Send + 'static,
    {
        self.options.rare().fallback = Some(Box::new(fallback));
        self
    }

    /// One attempt of several: no fallback is tried.
    pub(crate) fn no_fallback(mut self) -> Self {
        self.options.is_attempt = true;
        self
    }

    /// Calls `observe` with everything that happens in this call, in order, on the thread
    /// where it happens.
    pub fn observe(mut self, observe: impl FnMut(Event) + Send + 'static) -> Self {
        self.options.rare().observer = Some(Box::new(observe));
        self
    }

    /// Runs `work` behind the bulkhead and waits for its answer. See [`Command::run`].
    ///
    /// # Errors
    ///
    /// Why there is no answer.
    #[inline]
    pub fn run<F>(self, work: F) -> Result<T, CommandError<E>>
    where
        F: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static,
    {
        if self.command.shared.state.flags() & THREADS != 0 {
            return self.run_on_threads(work);
        }
        self.run_in_place(work)
    }

    /// Runs `work` on the calling thread. See [`Command::run_in_place`].
    ///
    /// # Errors
    ///
    /// Why there is no answer.
    #[inline]
    pub fn run_in_place<F>(mut self, work: F) -> Result<T, CommandError<E>>
    where
        F: FnOnce(&CancelToken) -> Result<T, E>,
    {
        if self.options.rare.is_some() {
            return self.run_cached(work);
        }
        let shared = &self.command.shared;
        shared.run_in_place(Asked(Some(&mut self.options)), work)
    }

    /// Runs `work` behind the bulkhead. See [`Command::queue`].
    pub fn queue<F>(self, work: F) -> Completion<T, CommandError<E>>
    where
        F: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static,
    {
        if self.command.shared.state.flags() & THREADS != 0 {
            return self.queue_on_threads(work);
        }
        match self.run_in_place(work) {
            Ok(value) => Completion::succeeded(value),
            Err(error) => Completion::failed(error),
        }
    }

    /// Runs the future that `work` makes. See [`Command::run_async`].
    pub fn run_async<F, W>(self, work: F) -> RunAsync<T, E, F, W>
    where
        F: FnOnce(CancelToken) -> W,
        W: Future<Output = Result<T, E>>,
    {
        RunAsync::new(self.command.clone(), self.options, work)
    }

    /// Runs `work` on a thread of the bulkhead and waits for it.
    #[inline(never)]
    fn run_on_threads<F>(self, work: F) -> Result<T, CommandError<E>>
    where
        F: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static,
    {
        self.with_cache(move |mut call: Self| {
            let shared = &call.command.shared;
            shared.run_on_threads(&mut call.options, work)
        })
    }

    /// Runs `work` on a thread of the bulkhead. A call that shares the run of another waits for
    /// it on this thread.
    #[inline(never)]
    fn queue_on_threads<F>(self, work: F) -> Completion<T, CommandError<E>>
    where
        F: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static,
    {
        if self
            .options
            .rare
            .as_ref()
            .is_some_and(|rare| rare.cache.is_some())
        {
            return match self.run_on_threads(work) {
                Ok(value) => Completion::succeeded(value),
                Err(error) => Completion::failed(error),
            };
        }
        self.command.shared.queue_on_threads(self.options, work)
    }

    #[cold]
    fn run_cached<F>(self, work: F) -> Result<T, CommandError<E>>
    where
        F: FnOnce(&CancelToken) -> Result<T, E>,
    {
        self.with_cache(|mut call| {
            let shared = &call.command.shared;
            shared.run_in_place(Asked(Some(&mut call.options)), work)
        })
    }

    /// Runs the call with `run`, unless another one with the same cache key has an answer or is
    /// about to.
    fn with_cache(
        mut self,
        run: impl FnOnce(Self) -> Result<T, CommandError<E>>,
    ) -> Result<T, CommandError<E>> {
        let shared = &self.command.shared;
        let state = &*shared.state;
        let Some(cache) = self.options.take_cache() else {
            return run(self);
        };
        if state.flags() & CACHES == 0 {
            return run(self);
        }
        let context = self
            .options
            .context
            .clone()
            .or_else(RequestContext::current);
        let Some(context) = context else {
            let cause = Cause::Hook("a cache key needs a request: enter a RequestContext".into());
            return Err(CommandError::new(&state.key, cause));
        };
        match (cache.look_up)(&context, &state.key, &cache.key) {
            Looked::Miss(tell) => {
                let answer = run(self);
                tell(&answer);
                answer
            }
            Looked::Hit(wait) => {
                let now = state.now();
                state.metrics.count(now, Event::ResponseFromCache);
                let _ = state.plugins.hook(Stage::CacheHit, &state.key);
                state.plugins.event(&state.key, Event::ResponseFromCache);
                self.options.tell(Event::ResponseFromCache);
                let answer = wait();
                let events = answer
                    .as_ref()
                    .map_or_else(CommandError::events, |_| Events::none());
                context.note(Logged {
                    command: state.key.clone(),
                    events: cached_events(events),
                    took: Duration::ZERO,
                });
                answer
            }
        }
    }
}

impl<T, E> Call<'_, T, E>
where
    T: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + 'static,
{
    /// Shares one run with all calls of this command that have the same key in the same request,
    /// also while it runs. Errors are shared too.
    pub fn cache_key(mut self, key: impl fmt::Display) -> Self {
        self.options.rare().cache = Some(CacheUse {
            key: key.to_string(),
            look_up: look_up::<T, E>,
        });
        self
    }
}

impl<T, E> fmt::Debug for Call<'_, T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("command", &self.command)
            .field("criticality", &self.options.criticality)
            .finish_non_exhaustive()
    }
}

fn look_up<T, E>(context: &RequestContext, command: &Key, key: &str) -> Looked<T, E>
where
    T: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + 'static,
{
    let made = context.cached(command, key, || {
        let (promise, answer) = promise_of::<T, CommandError<E>>();
        let answer = answer.share().ok();
        let answer = answer.expect("nobody has taken the outcome of a new promise");
        (answer, promise)
    });
    match made {
        Err(promise) => Looked::Miss(Box::new(move |answer| {
            // Nobody can have cancelled: the shared reader keeps that to itself.
            let _ = promise.complete(answer.clone());
        })),
        Ok(answer) => {
            let command = command.clone();
            Looked::Hit(Box::new(move || copy_of(&answer, &command)))
        }
    }
}

fn copy_of<T, E>(
    answer: &SharedCompletion<T, CommandError<E>>,
    command: &Key,
) -> Result<T, CommandError<E>>
where
    T: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + 'static,
{
    match answer.peek() {
        Some(Outcome::Success(value)) => Ok(value.clone()),
        Some(Outcome::Failure(error)) => Err(error.clone()),
        _ => answer.wait().map_err(|error| match error {
            WaitError::Failed(error) => error,
            refused if refused.is_refused() => {
                CommandError::new(command, Cause::Rejected(crate::Refused::Waiting))
            }
            _ => CommandError::new(command, Cause::Cancelled),
        }),
    }
}
