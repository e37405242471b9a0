//! One call: what differs from the others.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use tidegate_core::{CancelToken, as_nanos};
use tidegate_promise::Completion;

use super::{Command, CommandError, RunAsync};
use crate::Event;
use crate::bulkhead::Criticality;
use crate::isolation::state::{State, THREADS};
use crate::plugin::Install;
use crate::request::wait_graph::{self, RunId};
use crate::request::{CacheUse, Entered, Looked, RequestContext};

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
    /// What a fallback on a thread of the command finds around it.
    pub(super) captured: Vec<Install>,
    /// The shared run that this call makes.
    pub(super) run: Option<RunId>,
}

impl<T, E> Options<T, E> {
    fn rare(&mut self) -> &mut Rare<T, E> {
        self.rare.get_or_insert_with(|| {
            Box::new(Rare {
                cache: None,
                fallback: None,
                observer: None,
                captured: Vec::new(),
                run: None,
            })
        })
    }

    pub(super) fn set_cache(&mut self, cache: CacheUse<T, E>) {
        self.rare().cache = Some(cache);
    }

    pub(super) fn take_cache(&mut self) -> Option<CacheUse<T, E>> {
        self.rare.as_mut()?.cache.take()
    }

    pub(super) fn set_captured(&mut self, captured: Vec<Install>) {
        self.rare().captured = captured;
    }

    pub(super) fn take_captured(&mut self) -> Vec<Install> {
        let rare = self.rare.as_mut();
        rare.map(|rare| std::mem::take(&mut rare.captured))
            .unwrap_or_default()
    }

    pub(super) fn set_run(&mut self, run: RunId) {
        self.rare().run = Some(run);
    }

    /// The shared run that this call makes, if it makes one.
    pub(super) fn run(&self) -> Option<RunId> {
        self.rare.as_ref().and_then(|rare| rare.run)
    }

    pub(super) fn take_fallback(&mut self) -> Option<OwnFallback<T, E>> {
        self.rare.as_mut()?.fallback.take()
    }

    /// Tells whoever observes this call.
    pub(super) fn tell(&mut self, state: &State, event: Event) {
        let observer = self.rare.as_mut().and_then(|rare| rare.observer.as_mut());
        if let Some(observer) = observer
            && let Err(message) = crate::error::contain(|| observer(event))
        {
            state.plugins.panicked(&state.key, &message);
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

    /// Enters the request that was asked for, if any.
    #[inline]
    pub(super) fn enter_context(&self) -> Option<Entered> {
        self.context().map(RequestContext::enter)
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
        if self.options.rare.is_some() {
            return self.queue_cached(work);
        }
        self.queue_uncached(work)
    }

    /// Runs the future that `work` makes. See [`Command::run_async`].
    pub fn run_async<F, W>(self, work: F) -> RunAsync<T, E, F, W>
    where
        F: FnOnce(CancelToken) -> W,
        W: Future<Output = Result<T, E>>,
    {
        let mut options = self.options;
        // It may be polled elsewhere, where the thread is in another request or in none.
        options.context = options.context.or_else(RequestContext::current);
        RunAsync::new(self.command.clone(), options, work)
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

    fn queue_uncached<F>(mut self, work: F) -> Completion<T, CommandError<E>>
    where
        F: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static,
    {
        let shared = &self.command.shared;
        if shared.state.flags() & THREADS != 0 {
            return shared.queue_on_threads(self.options, work);
        }
        match shared.run_in_place(Asked(Some(&mut self.options)), work) {
            Ok(value) => Completion::succeeded(value),
            Err(error) => Completion::failed(error),
        }
    }

    #[cold]
    fn queue_cached<F>(mut self, work: F) -> Completion<T, CommandError<E>>
    where
        F: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static,
    {
        match self.command.shared.look_up(&mut self.options, false) {
            // It does not wait, so there is no circle either.
            Ok(None | Some(Looked::Circle)) => self.queue_uncached(work),
            Ok(Some(Looked::Hit(copies))) => self.command.shared.listen_to(self.options, copies),
            Ok(Some(Looked::Miss(first))) => {
                let _within = wait_graph::enter(first.id());
                first.completion_of(self.queue_uncached(work))
            }
            Err(error) => Completion::failed(error),
        }
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
        match self.command.shared.look_up(&mut self.options, true)? {
            None => run(self),
            Some(Looked::Hit(copies)) => self.command.shared.wait_for(&mut self.options, copies),
            Some(Looked::Circle) => self.command.shared.closes_circle(&mut self.options),
            Some(Looked::Miss(first)) => {
                let within = wait_graph::enter(first.id());
                let answer = run(self);
                drop(within);
                first.tell(&answer);
                answer
            }
        }
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
