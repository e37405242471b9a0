//! The operations of wrappers on a call: make attempts, end the call after the last attempt, share
//! its run.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use tidegate_core::{CancelToken, Executor};

use super::call::Call;
use super::entry::Entry;
use super::entry_wait::{PendingEntry, Then};
use super::handle::Command;
use super::options::{CallOptions, SharedRunGuard};
use super::report::CallRecord;
use super::thread_call::Work;
use crate::cancel::{Cancelled, HandleOfCall};
use crate::error::{Cause, CommandError};
use crate::event::Event;
use crate::request::wait_graph;
use crate::request::{Answer, CacheLookup, RequestContext, RunOwner};

impl<T: Send + 'static, E: Send + 'static> Call<T, E> {
    pub(crate) fn command(&self) -> &Command<T, E> {
        &self.command
    }

    /// Returns the present time of the command's clock.
    pub(crate) fn now(&self) -> u64 {
        self.command.shared.state.now()
    }

    /// Returns one attempt of this call: a call that tries no fallback.
    pub(crate) fn attempt(&self) -> Self {
        Self {
            command: self.command.clone(),
            options: self.options.of_attempt(),
        }
    }

    /// Returns one attempt that ends after so many nanoseconds, or after the timeout of the command if
    /// that is shorter.
    pub(crate) fn attempt_within(&self, left: u64) -> Self {
        let mut attempt = self.attempt();
        let timeout = self.command.shared.state.timeout().min(left);
        attempt.options.timeout = Some(timeout);
        attempt
    }

    /// Returns the timeout of the call in nanoseconds; `u64::MAX` for none.
    pub(crate) fn timeout_nanos(&self) -> u64 {
        self.options.terms(&self.command.shared.state).timeout
    }

    /// Returns a time of the command's clock as an instant.
    pub(crate) fn instant_of(&self, nanos: u64) -> Option<Instant> {
        self.command.alarms().clock().clock().instant_at(nanos)
    }

    /// Ends the call before its admission, without a fallback.
    pub(crate) fn refuse(self, cause: Cause<E>) -> CommandError<E> {
        self.command.shared.misused(&self.options, cause)
    }

    /// Passes the answer of an admission to `then` on `home`.
    pub(crate) fn answer_on<F: Then<E>>(
        self,
        home: &Arc<dyn Executor>,
        then: F,
        answer: Result<Entry, CommandError<E>>,
    ) -> PendingEntry {
        let shared = &self.command.shared;
        shared.answer_on(self.options, home, then, answer)
    }

    /// Returns a future that is ready when the caller cancels the call with its handle.
    pub(crate) fn cancelled(&self) -> Cancelled {
        Cancelled::new(self.options.handle())
    }

    /// Returns `true` if the caller has cancelled the call with its handle.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.options
            .handle()
            .is_some_and(HandleOfCall::is_cancelled)
    }

    /// Returns `true` if a call with a cache key was cancelled before it is made. It then neither
    /// starts nor joins a run.
    fn is_cancelled_before(&self) -> bool {
        self.options.has_cache() && self.is_cancelled()
    }

    /// Counts an event of the whole call.
    pub(crate) fn count(&self, event: Event) {
        let state = &*self.command.shared.state;
        state.metrics.count(state.now(), event);
        state.notify(self.options.observer(), event);
    }

    /// Ends the call with the error of its last attempt. The fallback may give a value instead,
    /// unless this call is itself an attempt of another wrapper.
    pub(crate) fn finish(mut self, error: CommandError<E>) -> Answer<T, E> {
        if self.options.is_attempt {
            return Err(error);
        }
        let shared = &self.command.shared;
        shared.fall_back_from(&mut self.options, error)
    }

    /// The same in a future, which awaits a fallback that is a future.
    pub(crate) async fn finish_async(mut self, error: CommandError<E>) -> Answer<T, E> {
        if self.options.is_attempt {
            return Err(error);
        }
        let (shared, options) = (&self.command.shared, &mut self.options);
        options.defers = true;
        let answer = shared.fall_back_from(options, error);
        shared.fall_back_if_deferred(options, answer).await
    }

    /// Ends the call because its caller has cancelled it, after an attempt ended with `error`.
    pub(crate) fn finish_cancelled(self, error: CommandError<E>) -> Answer<T, E> {
        match error.cause() {
            // That attempt was cancelled, and was counted.
            Cause::Cancelled => self.finish(error),
            _ => self.deny(Cause::Cancelled),
        }
    }

    /// Ends the call before any work has run. The fallback may give a value, unless this call is an
    /// attempt.
    pub(crate) fn deny(mut self, cause: Cause<E>) -> Answer<T, E> {
        let shared = &self.command.shared;
        let record = CallRecord::new(shared.state.now());
        shared.failed(record, &mut self.options, cause)
    }

    /// The same in a future, which awaits a fallback that is a future.
    pub(crate) async fn deny_async(mut self, cause: Cause<E>) -> Answer<T, E> {
        let (shared, options) = (&self.command.shared, &mut self.options);
        options.defers = true;
        let record = CallRecord::new(shared.state.now());
        let answer = shared.failed(record, options, cause);
        shared.fall_back_if_deferred(options, answer).await
    }

    /// Runs the call with `run`, unless a call with the same cache key has ended or is in flight:
    /// then waits for that call's result and returns a copy of it.
    pub(crate) fn with_cache(mut self, run: impl FnOnce(Self) -> Answer<T, E>) -> Answer<T, E> {
        if self.is_cancelled_before() {
            return self.deny(Cause::Cancelled);
        }
        let shared = &self.command.shared;
        match shared.look_up(&mut self.options, true)? {
            None => run(self),
            Some(CacheLookup::Hit(copies)) => shared.wait_for(&mut self.options, copies),
            Some(CacheLookup::WouldDeadlock) => shared.reject_deadlock(&mut self.options),
            Some(CacheLookup::Miss(first)) => self.lead_here(first, run),
        }
    }

    /// Executes the run `first` with `run` on this thread.
    pub(super) fn lead_here(
        mut self,
        mut first: Box<dyn RunOwner<T, E>>,
        run: impl FnOnce(Self) -> Answer<T, E>,
    ) -> Answer<T, E> {
        self.options.release_run(&mut *first);
        let within = wait_graph::enter(first.callers().id);
        // If `run` panics, the guard ends the run for the calls that share it.
        let owner = SharedRunGuard::new(first);
        let answer = run(self);
        drop(within);
        owner.complete_copies(&answer);
        answer
    }

    /// Runs `work` on threads like `with_cache`, for a call with a handle: its caller can leave the
    /// run to others. So the run is queued, and its caller waits like the others.
    #[cold]
    pub(super) fn lead_on_threads<F: Work<T, E>>(mut self, work: F) -> Answer<T, E> {
        if self.is_cancelled_before() {
            return self.deny(Cause::Cancelled);
        }
        let shared = Arc::clone(&self.command.shared);
        let mut first = match shared.look_up(&mut self.options, true)? {
            None => return shared.run_on_threads(&mut self.options, work),
            Some(CacheLookup::Hit(copies)) => return shared.wait_for(&mut self.options, copies),
            Some(CacheLookup::WouldDeadlock) => return shared.reject_deadlock(&mut self.options),
            Some(CacheLookup::Miss(first)) => first,
        };
        if let Err(refused) = shared.state.may_wait() {
            let owner = SharedRunGuard::new(first);
            let answer = self.deny(Cause::Rejected(refused));
            owner.complete_copies(&answer);
            return answer;
        }
        let handle = self.options.take_handle().unwrap_or_else(HandleOfCall::new);
        let run = HandleOfCall::of_run(Some(&handle));
        first.callers().begun_by(&run);
        let token = CancelToken::new();
        first.begin_wait(&handle, &token, self.options.is_attempt);
        if first.callers().are_gone() {
            drop(SharedRunGuard::new(first));
            return self.deny(Cause::Cancelled);
        }
        let run_handle = run.handle();
        self.options.rare().handle = Some(run);
        let within = wait_graph::enter(first.callers().id);
        let mine = first.start(self.queue_uncached(work), run_handle);
        drop(within);
        shared.wait_out(mine, &token)
    }

    /// Runs the call like `with_cache`, for a `run` that returns a future. A call without a request
    /// of its own belongs to the request that is current now, not to the one at the first poll.
    pub(crate) fn with_cache_async<F, W>(
        mut self,
        run: F,
    ) -> impl Future<Output = Answer<T, E>> + use<T, E, F, W>
    where
        F: FnOnce(Self) -> W,
        W: Future<Output = Answer<T, E>>,
    {
        let context = &mut self.options.context;
        *context = context.take().or_else(RequestContext::current);
        async move {
            if self.is_cancelled_before() {
                return self.deny(Cause::Cancelled);
            }
            let shared = &self.command.shared;
            let mut first = match shared.look_up(&mut self.options, true)? {
                None => return run(self).await,
                Some(CacheLookup::Hit(copies)) => return shared.follow(self.options, copies).await,
                Some(CacheLookup::WouldDeadlock) => {
                    let options = &mut self.options;
                    options.defers = true;
                    let answer = shared.reject_deadlock(options);
                    return shared.fall_back_if_deferred(options, answer).await;
                }
                Some(CacheLookup::Miss(first)) => first,
            };
            self.options.release_run(&mut *first);
            let id = first.callers().id;
            // If `run` panics, the guard ends the run for the calls that share it.
            let guard = SharedRunGuard::new(first);
            let within = wait_graph::enter(id);
            let mut running = pin!(run(self));
            drop(within);
            // Dropped before `running`: calls that share the run are notified first that there is
            // no result.
            let owner = guard;
            let answer = poll_fn(|context| {
                let _within = wait_graph::enter(id);
                running.as_mut().poll(context)
            });
            let answer = answer.await;
            owner.complete_copies(&answer);
            answer
        }
    }
}

impl<T, E> CallOptions<T, E> {
    /// Prepares a call that executes the run `first` on this thread. The run belongs to all calls
    /// that share it, and has a handle of its own: the last of them cancels it.
    fn release_run(&mut self, first: &mut dyn RunOwner<T, E>) {
        let handle = self.take_handle();
        let run = HandleOfCall::of_run(handle.as_ref());
        first.execute_here(&run, handle.as_ref(), self.is_attempt);
        self.rare().handle = Some(run);
    }

    /// Returns the options that also apply to each attempt of a call.
    fn of_attempt(&self) -> Self {
        let mut options = Self {
            timeout: self.timeout,
            criticality: self.criticality,
            context: self.context.clone(),
            rare: None,
            is_attempt: true,
            defers: false,
        };
        if let Some(observer) = self.observer() {
            options.rare().observer = Some(observer.clone());
        }
        if let Some(run) = self.run() {
            options.rare().run = Some(run);
        }
        if let Some(handle) = self.handle() {
            options.rare().handle = Some(handle.clone());
        }
        options
    }
}
