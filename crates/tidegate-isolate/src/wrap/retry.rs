//! Retries, within a budget.
//!
//! Retries make an overload worse, so a budget limits them to a share of the calls. A retry is
//! taken from the budget when it is decided. So retries that are still pausing count too. One that never
//! begins, because its caller has left or the isolation was stopped, goes back to the budget.

use std::future::{Future, poll_fn};
use std::hash::{BuildHasher, RandomState};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate_core::Parker;
use tidegate_core::internal::{as_nanos, check_may_block};

use super::budget::{Paid, RetryBudget};
use crate::alarm::Pause;
use crate::command::{Call, Command};
use crate::error::{CommandError, contain};
use crate::event::Event;

/// The default share of a pause that is random; see [`Retry::jitter`].
const JITTER: f64 = 0.5;

type Predicate<E> = Arc<dyn Fn(&CommandError<E>) -> bool + Send + Sync>;
type Hint<E> = Arc<dyn Fn(&CommandError<E>) -> Option<Duration> + Send + Sync>;

/// A retry policy: how often, when and after which errors a call is tried again.
///
/// ```
/// use std::time::Duration;
/// use tidegate_isolate::{Command, Isolation, Retry};
///
/// let isolation = Isolation::builder().build()?;
/// let prices: Command<u32, String> =
///     Command::builder("prices").group("catalog").build(&isolation)?;
///
/// let retry = Retry::attempts(3)
///     .backoff(Duration::from_millis(1), 2.0)
///     .when(|error| !error.is_timed_out());
/// let mut tries = 0;
/// let price = retry.run(prices.call(), |attempt| {
///     tries += 1;
///     let answer = if tries < 3 { Err("busy".to_owned()) } else { Ok(42) };
///     attempt.run(move |_cancel| answer)
/// });
/// assert_eq!((price, tries), (Ok(42), 3));
/// # Ok::<(), tidegate_isolate::ConfigError>(())
/// ```
///
/// By default, a call is tried again after a failure, a panic, a timeout or a rejection by a full
/// bulkhead, and after a rejection by a rate limit once a token is available. It is not tried again
/// after a bad request, a short circuit or a cancellation, or if the calling thread must not make
/// it.
pub struct Retry<E> {
    attempts: u32,
    pause: Duration,
    factor: f64,
    longest: Duration,
    jitter: f64,
    budget: RetryBudget,
    when: Option<Predicate<E>>,
    retry_after: Option<Hint<E>>,
    /// The state of the random numbers, which clones share.
    random: Arc<AtomicU64>,
}

impl<E> Retry<E> {
    /// Makes at most so many attempts, the first included, without a pause. Unless
    /// [`Retry::budget`] sets another budget, retries are limited to 20 % of the calls and 3 more:
    /// if a dependency fails more often, most failures are not retried.
    pub fn attempts(attempts: u32) -> Self {
        Self {
            attempts: attempts.max(1),
            pause: Duration::ZERO,
            factor: 1.0,
            longest: Duration::from_secs(10),
            jitter: JITTER,
            budget: RetryBudget::default(),
            when: None,
            retry_after: None,
            random: Arc::new(AtomicU64::new(RandomState::new().hash_one(0))),
        }
    }

    /// Pauses before each retry, longer each time by `factor`.
    pub fn backoff(mut self, pause: Duration, factor: f64) -> Self {
        self.pause = pause;
        self.factor = if factor.is_finite() {
            factor.max(1.0)
        } else {
            1.0
        };
        self
    }

    /// Sets the longest pause; 10 seconds by default.
    pub fn longest(mut self, longest: Duration) -> Self {
        self.longest = longest;
        self
    }

    /// Makes a share of each pause random, from 0 to 1, so that callers which failed together do
    /// not come back together. A pause is shortened by at most this share. 0.5 by default.
    pub fn jitter(mut self, share: f64) -> Self {
        self.jitter = if share.is_finite() {
            share.clamp(0.0, 1.0)
        } else {
            JITTER
        };
        self
    }

    /// Takes retries from this budget, which other retry policies may share.
    pub fn budget(mut self, budget: &RetryBudget) -> Self {
        self.budget = budget.clone();
        self
    }

    /// Tries again only after errors for which `when` returns `true`, in place of the default. If
    /// `when` panics, there is no retry.
    pub fn when(mut self, when: impl Fn(&CommandError<E>) -> bool + Send + Sync + 'static) -> Self {
        self.when = Some(Arc::new(when));
        self
    }

    /// Pauses for at least as long as `hint` returns, such as the `Retry-After` of a response. If
    /// `hint` is not set or returns `None`, the error's own [`CommandError::retry_after`] applies.
    /// A value above the longest pause ends the retries.
    pub fn retry_after(
        mut self,
        hint: impl Fn(&CommandError<E>) -> Option<Duration> + Send + Sync + 'static,
    ) -> Self {
        self.retry_after = Some(Arc::new(hint));
        self
    }

    /// Returns the longest pause before the `n`-th retry, counted from one, unless a hint is
    /// longer.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate_isolate::Retry;
    ///
    /// let retry = Retry::<String>::attempts(3).backoff(Duration::from_millis(10), 2.0);
    /// assert_eq!(retry.pause(2), Duration::from_millis(20));
    /// ```
    pub fn pause(&self, n: u32) -> Duration {
        let times = self.factor.powi(n.saturating_sub(1).min(1_000) as i32);
        if self.pause.is_zero() {
            // Zero times a factor that has overflowed to infinity would give the longest pause.
            return Duration::ZERO;
        }
        let pause = Duration::try_from_secs_f64(self.pause.as_secs_f64() * times);
        pause.map_or(self.longest, |pause| pause.min(self.longest))
    }
}

impl<E: Send + 'static> Retry<E> {
    /// Makes attempts of `call` with `attempt` until one succeeds or no retry is left.
    ///
    /// # Errors
    ///
    /// Returns the error of the last attempt, if the fallback of `call` gives no value either.
    ///
    /// # Threads
    ///
    /// Pauses on the calling thread. [`Isolation::shutdown_now`](crate::Isolation::shutdown_now) and a
    /// cancel with the [handle](Call::handle) of the call end the pause. If the thread must not block, it retries without a pause, and not at all after an
    /// error that says how long to wait.
    pub fn run<T>(
        &self,
        call: Call<T, E>,
        mut attempt: impl FnMut(Call<T, E>) -> Result<T, CommandError<E>>,
    ) -> Result<T, CommandError<E>>
    where
        T: Send + 'static,
    {
        call.with_cache(|call| {
            self.budget.earn();
            let may_pause = check_may_block(None).is_ok();
            let mut retries = 0;
            loop {
                let error = match attempt(call.attempt()) {
                    Ok(value) => return Ok(value),
                    Err(error) => error,
                };
                if call.is_cancelled() {
                    return call.finish_cancelled(error);
                }
                retries += 1;
                let limits = (may_pause, Duration::MAX);
                let next = self.next_pause(call.command(), retries, &error, limits);
                let Some((pause, paid)) = next else {
                    return call.finish(error);
                };
                if may_pause && !pause.is_zero() {
                    sleep(&call, pause);
                }
                if call.is_cancelled() {
                    return call.finish_cancelled(error);
                }
                if call.command().is_shut_down() {
                    return call.finish(error);
                }
                paid.use_up();
                call.count(Event::Retried);
            }
        })
    }

    /// Makes attempts like [`Retry::run`], for attempts that are futures. No thread blocks during a
    /// pause. Dropping the returned future drops the current attempt or pause; the retry of a pause goes
    /// back to the budget.
    #[must_use = "a future does nothing until it is polled"]
    pub fn run_async<T, F, W, X>(
        &self,
        call: Call<T, E>,
        mut attempt: F,
    ) -> impl Future<Output = Result<T, CommandError<E>>> + use<T, E, F, W, X>
    where
        T: Send + 'static,
        F: FnMut(Call<T, E>) -> W,
        W: Future<Output = Result<T, X>>,
        X: Into<CommandError<E>>,
    {
        let retry = self.clone();
        call.with_cache_async(move |call| async move {
            retry.budget.earn();
            let mut retries = 0;
            loop {
                let error = match attempt(call.attempt()).await {
                    Ok(value) => return Ok(value),
                    Err(error) => error.into(),
                };
                if call.is_cancelled() {
                    return call.finish_cancelled(error);
                }
                retries += 1;
                let limits = (true, Duration::MAX);
                let next = retry.next_pause(call.command(), retries, &error, limits);
                let Some((pause, paid)) = next else {
                    return call.finish_async(error).await;
                };
                if !pause.is_zero() {
                    let mut cancelled = call.cancelled();
                    let mut pause = pause_of(call.command(), pause);
                    poll_fn(|context| match cancelled.poll(context) {
                        Poll::Ready(()) => Poll::Ready(()),
                        Poll::Pending => Pin::new(&mut pause).poll(context),
                    })
                    .await;
                }
                if call.is_cancelled() {
                    return call.finish_cancelled(error);
                }
                if call.command().is_shut_down() {
                    return call.finish_async(error).await;
                }
                paid.use_up();
                call.count(Event::Retried);
            }
        })
    }

    /// Adds the share of one call to the budget.
    pub(super) fn earn(&self) {
        self.budget.earn();
    }

    /// Takes an attempt from the budget.
    pub(super) fn pay(&self) -> Option<Paid> {
        self.budget.pay()
    }

    /// Decides whether there is an `n`-th retry, and takes it from the budget. Returns the pause
    /// before it, or `None` if there is no retry. A caller that may not pause makes no retry that
    /// would come too early, and none begins after the time that is left.
    pub(super) fn next_pause<T: Send + 'static>(
        &self,
        command: &Command<T, E>,
        n: u32,
        error: &CommandError<E>,
        (may_pause, left): (bool, Duration),
    ) -> Option<(Duration, Paid)> {
        if !self.may_retry(command, n) {
            return None;
        }
        let is_worth_it = match &self.when {
            Some(when) => call_user_code(command, || when(error))?,
            None => error.cause().is_retryable(),
        };
        if !is_worth_it {
            return None;
        }
        let hint = match &self.retry_after {
            Some(hint) => call_user_code(command, || hint(error))?,
            None => None,
        };
        let hint = hint.or_else(|| error.retry_after());
        if !may_pause && hint.is_some_and(|hint| !hint.is_zero()) {
            return None;
        }
        self.take_pause(n, hint, left)
    }

    /// Returns `true` if the policy and the isolation allow an `n`-th retry.
    pub(super) fn may_retry<T: Send + 'static>(&self, command: &Command<T, E>, n: u32) -> bool {
        n < self.attempts && !command.is_shut_down()
    }

    /// Takes the `n`-th retry from the budget. Returns the pause before it, or `None` if the budget
    /// is spent, `hint` is above the longest pause, or the pause would not end in the time that is
    /// left.
    pub(super) fn take_pause(
        &self,
        n: u32,
        hint: Option<Duration>,
        left: Duration,
    ) -> Option<(Duration, Paid)> {
        let at_least = hint.unwrap_or(Duration::ZERO);
        let pause = self.jittered(self.pause(n)).max(at_least);
        if at_least > self.longest || pause >= left {
            return None;
        }
        Some((pause, self.pay()?))
    }

    fn jittered(&self, pause: Duration) -> Duration {
        if self.jitter == 0.0 || pause.is_zero() {
            return pause;
        }
        let share = 1.0 - self.jitter * self.random();
        let shorter = Duration::try_from_secs_f64(pause.as_secs_f64() * share);
        shorter.map_or(pause, |shorter| shorter.min(pause))
    }

    /// Returns a number from 0 to 1, by the SplitMix64 generator.
    fn random(&self) -> f64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut mixed = self.random.fetch_add(STEP, Ordering::Relaxed);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) as f64 / u64::MAX as f64
    }
}

/// Runs a closure of the user. If it panics, reports the panic and returns `None`.
fn call_user_code<T: Send + 'static, E: Send + 'static, R>(
    command: &Command<T, E>,
    closure: impl FnOnce() -> R,
) -> Option<R> {
    let answer = contain(closure);
    if let Err(message) = &answer {
        command.panicked(message);
    }
    answer.ok()
}

pub(super) fn pause_of<T: Send + 'static, E: Send + 'static>(
    command: &Command<T, E>,
    pause: Duration,
) -> Pause {
    let now = command.alarms().clock().nanos();
    let at = now.saturating_add(as_nanos(pause));
    Pause::until(command.alarms(), command.aside(), at)
}

/// Pauses on the calling thread, until the time is over, the call is cancelled, or the timer is
/// closed.
fn sleep<T: Send + 'static, E: Send + 'static>(call: &Call<T, E>, pause: Duration) {
    let command = call.command();
    let alarms = command.alarms();
    let clock = alarms.clock().clock();
    let until = clock.nanos().saturating_add(as_nanos(pause));
    let parker = Parker::new();
    let waker = Waker::from(&parker);
    let mut context = Context::from_waker(&waker);
    // Its own time never comes: it is ready when the timer is closed.
    let mut closed = pin!(Pause::until(alarms, command.aside(), u64::MAX));
    let mut cancelled = call.cancelled();
    while clock.nanos() < until
        && closed.as_mut().poll(&mut context).is_pending()
        && cancelled.poll(&context).is_pending()
    {
        clock.park_until(&parker, Some(until));
    }
}

impl<E> Clone for Retry<E> {
    fn clone(&self) -> Self {
        Self {
            budget: self.budget.clone(),
            when: self.when.clone(),
            retry_after: self.retry_after.clone(),
            random: Arc::clone(&self.random),
            ..*self
        }
    }
}

debug_fields!([E] Retry<E>, this =>
    attempts: this.attempts, pause: this.pause, factor: this.factor, longest: this.longest,
    jitter: this.jitter, budget: this.budget);
