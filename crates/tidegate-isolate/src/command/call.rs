//! The ways to make and run a call, with or without options of its own.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::internal::as_nanos;
use tidegate_core::{CancelToken, Executor};
use tidegate_promise::Completion;

use super::entry::Entry;
use super::entry_wait::PendingEntry;
use super::fallback_fn::OwnFallback;
use super::handle::Command;
use super::options::{CallOptions, MaybeOptions};
use super::report::CallRecord;
use super::run_in_place::at_once;
use super::shared::Shared;
use super::thread_call::Work;
use crate::bulkhead::Criticality;
use crate::cancel::{CallHandle, HandleOfCall, Interrupt};
use crate::error::{Cause, CommandError};
use crate::event::Event;
use crate::isolation::state::{INTERRUPTS_ON_CANCEL, THREADS};
use crate::request::{CacheKey, CacheLookup, RequestContext, wait_graph};

impl<T: Send + 'static, E: Send + 'static> Command<T, E> {
    /// Runs `work` behind the bulkhead and waits for its result.
    ///
    /// # Errors
    ///
    /// Returns why there is no value; see [`CommandError`].
    ///
    /// # Threads
    ///
    /// With permits the work runs on the calling thread. If the work passes its deadline, its token
    /// is tripped (unless `interrupt_on_timeout` is off), and the call ends as timed out when the
    /// work returns. Only a call on threads ends at its deadline, while its work still runs.
    #[inline]
    pub fn run<F>(&self, work: F) -> Result<T, CommandError<E>>
    where
        F: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static,
    {
        if self.shared.state.flags() & THREADS != 0 {
            return self
                .shared
                .run_on_threads(&mut CallOptions::default(), work);
        }
        self.shared
            .run_in_place(MaybeOptions::NOTHING, at_once, work)
    }

    /// Runs `work` on the calling thread and returns its result. The work may borrow data. For
    /// commands with permits.
    ///
    /// # Errors
    ///
    /// As for [`Command::run`]. A command with threads of its own rejects the call with
    /// [`Rejection::InPlace`](crate::Rejection::InPlace).
    #[inline]
    pub fn run_in_place<F>(&self, work: F) -> Result<T, CommandError<E>>
    where
        F: FnOnce(&CancelToken) -> Result<T, E>,
    {
        self.shared
            .run_in_place(MaybeOptions::NOTHING, at_once, work)
    }

    /// Runs `work` behind the bulkhead and returns a completion of its result. With permits, the
    /// work runs on the calling thread before this returns.
    pub fn queue<F>(&self, work: F) -> Completion<T, CommandError<E>>
    where
        F: FnOnce(&CancelToken) -> Result<T, E> + Send + 'static,
    {
        self.call().queue(work)
    }

    /// Runs the future that `work` makes, with permits, as part of the returned future. The call is
    /// made when the returned future is first polled. If callers may wait for a permit, the future
    /// is pending until there is one. A command with threads rejects the call, because the work
    /// would run outside of them.
    ///
    /// ```
    /// use tidegate_isolate::{Command, Isolation};
    ///
    /// let isolation = Isolation::builder().build()?;
    /// let prices: Command<u32, String> =
    ///     Command::builder("prices").group("catalog").build(&isolation)?;
    /// let price = prices.run_async(|_cancel| async { Ok(42) });
    /// drop(price); // never polled: no call was made
    /// assert_eq!(prices.snapshot().active, 0);
    /// # Ok::<(), tidegate_isolate::ConfigError>(())
    /// ```
    ///
    /// # Cancellation
    ///
    /// Dropping the returned future drops the work, trips its token and gives the permit back.
    #[must_use = "a future does nothing until it is polled"]
    #[inline]
    pub fn run_async<F, W>(
        &self,
        work: F,
    ) -> impl Future<Output = Result<T, CommandError<E>>> + use<T, E, F, W>
    where
        F: FnOnce(CancelToken) -> W,
        W: Future<Output = Result<T, E>>,
    {
        let options = CallOptions {
            context: RequestContext::current(),
            ..CallOptions::default()
        };
        Arc::clone(&self.shared).run_async(options, work)
    }

    /// Admits a call whose work the caller does itself, without a closure: takes a permit, consults
    /// the breaker and starts the timeout. See [`Entry`].
    ///
    /// For handlers and other code whose work begins in one place and ends in another. Never waits
    /// for a permit, even if other callers may wait, and tries no fallback.
    ///
    /// # Errors
    ///
    /// Returns why the call was not admitted; [`CommandError::retry_after`] returns when to try
    /// again, if that is known. A command with threads of its own rejects the call, because the
    /// work would run outside of them.
    #[inline]
    pub fn admit(&self) -> Result<Entry, CommandError<E>> {
        self.shared.enter(MaybeOptions::NOTHING)
    }

    /// Admits a call like [`Command::admit`], and waits for a permit if none is free: the call takes
    /// a place in the queue of the command, with the discipline, the bound and the deadline of that
    /// queue ([`PermitConfig`](crate::PermitConfig)). Calls `then` on `home` with the entry, or with
    /// the reason why the call was not admitted. See [`PendingEntry`].
    ///
    /// For handlers, which must not block their loop. The timeout of the call includes the wait.
    ///
    /// # Threads
    ///
    /// If the call need not wait and the calling thread runs `home`, `then` runs before this method
    /// returns. In all other cases `then` runs later, on `home`. A panic of `then` is reported.
    ///
    /// # Cancellation
    ///
    /// Dropping the returned handle leaves the queue at once. A permit that was on its way goes
    /// back, `then` is dropped, and the call counts as cancelled. The same happens if `home` has
    /// ended.
    pub fn admit_or_wait<F>(&self, home: &Arc<dyn Executor>, then: F) -> PendingEntry
    where
        F: FnOnce(Result<Entry, CommandError<E>>) + Send + 'static,
    {
        let options = CallOptions::default();
        self.shared.enter_or_wait(options, home, then)
    }

    /// Begins a call with options of its own, such as a timeout, a fallback or a cache key.
    #[inline]
    pub fn call(&self) -> Call<T, E> {
        Call {
            command: self.clone(),
            options: CallOptions::default(),
        }
    }
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
/// # Ok::<(), tidegate_isolate::ConfigError>(())
/// ```
#[must_use = "a call does nothing until it is run"]
pub struct Call<T, E> {
    pub(super) command: Command<T, E>,
    pub(super) options: CallOptions<T, E>,
}

impl<T: Send + 'static, E: Send + 'static> Call<T, E> {
    /// Sets the timeout of this call, in place of the command's timeout.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(as_nanos(timeout));
        self
    }

    /// Sets the criticality of this call.
    pub fn criticality(mut self, criticality: Criticality) -> Self {
        self.options.criticality = criticality;
        self
    }

    /// Sets the request that this call belongs to, in place of the calling thread's request.
    pub fn context(mut self, context: &RequestContext) -> Self {
        self.options.context = Some(context.clone());
        self
    }

    /// Sets the fallback of this call, in place of the command's own. It runs if the work gives no
    /// value, and may own data of the input.
    pub fn fallback<F>(mut self, fallback: F) -> Self
    where
        F: FnOnce(&CommandError<E>) -> Result<T, E> + Send + 'static,
    {
        let fallback = OwnFallback::Blocking(Box::new(fallback));
        self.options.rare().fallback = Some(fallback);
        self
    }

    /// Sets a fallback of this call that is a future. See [`CommandBuilder::fallback_async`].
    ///
    /// [`CommandBuilder::fallback_async`]: crate::CommandBuilder::fallback_async
    pub fn fallback_async<F, W>(mut self, fallback: F) -> Self
    where
        F: FnOnce(&CommandError<E>) -> W + Send + 'static,
        W: Future<Output = Result<T, E>> + Send + 'static,
    {
        let fallback = OwnFallback::Async(Box::new(move |error| Box::pin(fallback(error))));
        self.options.rare().fallback = Some(fallback);
        self
    }

    /// Sets how long the fallback of this call may take, if it is a future.
    pub fn fallback_timeout(mut self, timeout: Duration) -> Self {
        self.options.rare().fallback_timeout = Some(timeout);
        self
    }

    /// Calls `observe` with each event of this call, in order, on the thread where the event
    /// happens.
    pub fn observe(mut self, observe: impl Fn(Event) + Send + Sync + 'static) -> Self {
        self.options.rare().observer = Some(Arc::new(observe));
        self
    }

    /// Returns a handle that cancels this call from any thread, and says whether work that already
    /// runs is interrupted. A completion of [`Call::queue`] can be cancelled without a handle
    /// (`Completion::cancel`): the setting `interrupt_on_cancel` then decides about the interrupt.
    ///
    /// The handle reaches every attempt of a wrapper. Of several calls that share a run, each has a
    /// handle of its own; the run is cancelled with the last of them, and is interrupted unless each
    /// of them said [`Interrupt::No`]. A caller that leaves the run to others returns at once, unless
    /// its own thread executes the run: with permits, and as the first caller of a wrapper. A future of
    /// [`Call::run_async`] is cancelled by dropping it: a handle only keeps its work from beginning, and
    /// not if others may share it. An [`Entry`], and a wait for one, has no handle: it is ended by what
    /// [`Call::admit`] and [`Call::admit_or_wait`] return.
    pub fn handle(&mut self) -> CallHandle {
        let handle = &mut self.options.rare().handle;
        handle.get_or_insert_with(HandleOfCall::new).handle()
    }

    /// Runs `work` behind the bulkhead and waits for its result. See [`Command::run`].
    ///
    /// # Errors
    ///
    /// Returns why there is no value.
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
    /// Returns why there is no value.
    #[inline]
    pub fn run_in_place<F>(mut self, work: F) -> Result<T, CommandError<E>>
    where
        F: FnOnce(&CancelToken) -> Result<T, E>,
    {
        if self.options.rare.is_some() {
            return self.run_cached(work);
        }
        let shared = &self.command.shared;
        shared.run_in_place(MaybeOptions(Some(&mut self.options)), at_once, work)
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
    #[must_use = "a future does nothing until it is polled"]
    pub fn run_async<F, W>(
        self,
        work: F,
    ) -> impl Future<Output = Result<T, CommandError<E>>> + use<T, E, F, W>
    where
        F: FnOnce(CancelToken) -> W,
        W: Future<Output = Result<T, E>>,
    {
        let mut options = self.options;
        // Captured now: the future may be polled on a thread that is in another request or in none.
        options.context = options.context.or_else(RequestContext::current);
        Arc::clone(&self.command.shared).run_async(options, work)
    }

    /// Admits a call whose work the caller does itself, with the timeout, criticality, request and
    /// observer of this call. A fallback and a cache key are not used. See [`Command::admit`].
    ///
    /// # Errors
    ///
    /// Returns why the call was not admitted.
    pub fn admit(mut self) -> Result<Entry, CommandError<E>> {
        self.command
            .shared
            .enter(MaybeOptions(Some(&mut self.options)))
    }

    /// Admits a call like [`Call::admit`], and waits for a permit if none is free. See
    /// [`Command::admit_or_wait`].
    pub fn admit_or_wait<F>(mut self, home: &Arc<dyn Executor>, then: F) -> PendingEntry
    where
        F: FnOnce(Result<Entry, CommandError<E>>) + Send + 'static,
    {
        // A handle would say that it keeps the entry from its holder.
        drop(self.options.take_handle());
        let shared = &self.command.shared;
        shared.enter_or_wait(self.options, home, then)
    }

    /// Runs `work` on a thread of the bulkhead and waits for it.
    #[inline(never)]
    fn run_on_threads<F: Work<T, E>>(self, work: F) -> Result<T, CommandError<E>> {
        if self.options.handle().is_some() && self.options.has_cache() {
            return self.lead_on_threads(work);
        }
        self.with_cache(move |mut call: Self| {
            let shared = &call.command.shared;
            shared.run_on_threads(&mut call.options, work)
        })
    }

    pub(super) fn queue_uncached<F: Work<T, E>>(self, work: F) -> Completion<T, CommandError<E>> {
        let shared = &self.command.shared;
        if shared.state.flags() & THREADS != 0 {
            return shared.queue_on_threads(self.options, work);
        }
        completed(self.run_here(work))
    }

    #[cold]
    fn queue_cached<F: Work<T, E>>(mut self, work: F) -> Completion<T, CommandError<E>> {
        match self.command.shared.look_up(&mut self.options, false) {
            // The lookup does not wait for the shared run, so it never returns `WouldDeadlock`.
            Ok(None | Some(CacheLookup::WouldDeadlock)) => self.queue_uncached(work),
            Ok(Some(CacheLookup::Hit(copies))) => {
                self.command.shared.listen_to(self.options, copies)
            }
            Ok(Some(CacheLookup::Miss(first)))
                if self.command.shared.state.flags() & THREADS == 0 =>
            {
                completed(self.lead_here(first, |call| call.run_here(work)))
            }
            Ok(Some(CacheLookup::Miss(first))) => {
                let _within = wait_graph::enter(first.callers().id);
                // The run belongs to all calls that share it, and has a handle of its own.
                let run = HandleOfCall::new();
                first.callers().begun_by(&run);
                let (handle, run_handle) = (self.options.take_handle(), run.handle());
                self.options.rare().handle = Some(run);
                let mine = first.start(self.queue_uncached(work), run_handle);
                mine.completion(handle.as_ref()).0
            }
            Err(error) => Completion::failed(error),
        }
    }

    #[cold]
    fn run_cached<F>(self, work: F) -> Result<T, CommandError<E>>
    where
        F: FnOnce(&CancelToken) -> Result<T, E>,
    {
        self.with_cache(|call| call.run_here(work))
    }

    /// Runs `work` on the calling thread, without the cache.
    fn run_here<F>(mut self, work: F) -> Result<T, CommandError<E>>
    where
        F: FnOnce(&CancelToken) -> Result<T, E>,
    {
        let shared = &self.command.shared;
        match self.options.handle().cloned() {
            Some(handle) => shared.run_with_handle(&mut self.options, &handle, work),
            None => shared.run_in_place(MaybeOptions(Some(&mut self.options)), at_once, work),
        }
    }
}

fn completed<T, E>(answer: Result<T, CommandError<E>>) -> Completion<T, CommandError<E>>
where
    T: Send + 'static,
    E: Send + 'static,
{
    match answer {
        Ok(value) => Completion::succeeded(value),
        Err(error) => Completion::failed(error),
    }
}

impl<T: Send + 'static, E: Send + 'static> Shared<T, E> {
    /// Runs `work` on the calling thread, with a handle that may trip its token.
    #[cold]
    fn run_with_handle<F>(
        &self,
        options: &mut CallOptions<T, E>,
        handle: &HandleOfCall,
        work: F,
    ) -> Result<T, CommandError<E>>
    where
        F: FnOnce(&CancelToken) -> Result<T, E>,
    {
        if handle.is_cancelled() {
            let record = CallRecord::new(self.state.now());
            return self.failed(record, options, Cause::Cancelled);
        }
        let is_attempt = options.is_attempt;
        let begin = |token: &CancelToken| {
            let (state, mine) = (Arc::clone(&self.state), token.clone());
            handle.begin(is_attempt, move |interrupt| {
                let may_interrupt = state.flags() & INTERRUPTS_ON_CANCEL != 0;
                if may_interrupt && interrupt != Some(Interrupt::No) {
                    state.interrupt(&mine);
                }
            })
        };
        self.run_in_place(MaybeOptions(Some(options)), begin, work)
    }
}

impl<T, E> Call<T, E>
where
    T: Clone + Send + Sync + 'static,
    E: Clone + Send + Sync + 'static,
{
    /// Shares one run with all calls of this command that have the same key in the same request,
    /// also while it runs. Errors are shared too. A call outside of a request fails with
    /// [`Cause::NoRequest`](crate::Cause::NoRequest), unless the cache is disabled.
    ///
    /// A queued run is cancelled when all callers that share it have cancelled. A run that is a
    /// future ends when its own caller drops it; the other callers then receive
    /// [`Cause::Cancelled`](crate::Cause::Cancelled). In both cases the next call runs again.
    ///
    /// A call that would wait, directly or through other runs, for the run that it is made in is
    /// rejected. A call that shares a run waits no longer than its own timeout; the run goes on for
    /// the others.
    pub fn cache_key(mut self, key: impl fmt::Display) -> Self {
        self.options.rare().cache = Some(CacheKey::of(key.to_string()));
        self
    }
}

debug_fields!([T, E] Call<T, E>, this =>
    command: this.command, criticality: this.options.criticality);
