//! Trying again, within a budget.
//!
//! Retries make an overload worse: a budget keeps them to a share of the calls. A retry is paid
//! for when it is decided, so those that still wait for their turn count, too.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_core::internal::{as_nanos, check_may_block};
use tidegate_core::{CancelToken, Parker};

use crate::alarm::Pause;
use crate::command::Command;
use crate::error::CommandError;
use crate::event::Event;

/// How often and when a call is tried again.
///
/// ```
/// use std::time::Duration;
/// use tidegate_isolate::Retry;
///
/// let retry = Retry::attempts(3).backoff(Duration::from_millis(10), 2.0);
/// assert_eq!(retry.pause(2), Duration::from_millis(20));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retry {
    attempts: u32,
    pause: Duration,
    factor: f64,
    longest: Duration,
}

impl Retry {
    /// At most so many attempts, the first included, without a pause.
    pub fn attempts(attempts: u32) -> Self {
        Self {
            attempts: attempts.max(1),
            pause: Duration::ZERO,
            factor: 1.0,
            longest: Duration::from_secs(10),
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

    /// The longest pause.
    pub fn longest(mut self, longest: Duration) -> Self {
        self.longest = longest;
        self
    }

    /// The pause before the `n`-th retry, from one.
    pub fn pause(&self, n: u32) -> Duration {
        let times = self.factor.powi(n.saturating_sub(1).min(1_000) as i32);
        if self.pause.is_zero() {
            // Also of an infinite factor.
            return Duration::ZERO;
        }
        let pause = Duration::try_from_secs_f64(self.pause.as_secs_f64() * times);
        pause.map_or(self.longest, |pause| pause.min(self.longest))
    }
}

/// How many retries a program can afford: a share of its calls, and a few at any time.
///
/// ```
/// use tidegate_isolate::RetryBudget;
///
/// let budget = RetryBudget::new(20, 1);
/// assert!(budget.try_spend() && !budget.try_spend());
/// (0..5).for_each(|_| budget.earn());
/// assert!(budget.try_spend());
/// ```
#[derive(Debug)]
pub struct RetryBudget {
    /// In hundredths of a retry.
    balance: AtomicU64,
    percent: u64,
    most: u64,
}

impl RetryBudget {
    /// The usual share, in percent.
    pub const PERCENT: u32 = 20;
    /// The usual reserve.
    pub const RESERVE: u32 = 3;

    /// Retries for `percent` of the calls, and `reserve` that are there from the beginning. At
    /// most the retries of a hundred calls and the reserve can be saved up.
    pub fn new(percent: u32, reserve: u32) -> Self {
        let (percent, reserve) = (u64::from(percent), u64::from(reserve) * 100);
        Self {
            balance: AtomicU64::new(reserve),
            percent,
            most: reserve + percent * 100,
        }
    }

    /// A call was made.
    pub fn earn(&self) {
        let earned = |balance: u64| Some((balance + self.percent).min(self.most));
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let _ = self.balance.fetch_update(set, fetch, earned);
    }

    /// Pays for a retry; false if there is not enough.
    pub fn try_spend(&self) -> bool {
        let spent = |balance: u64| balance.checked_sub(100);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        self.balance.fetch_update(set, fetch, spent).is_ok()
    }
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self::new(Self::PERCENT, Self::RESERVE)
    }
}

impl<T: Send + 'static, E: Send + 'static> Command<T, E> {
    /// Runs `work`, and again while it fails, times out or is refused for want of permits, as
    /// long as `retry` and `budget` allow. Each attempt is a call of its own, with the command's
    /// timeout and a place in its bulkhead; the fallback is tried only after the last.
    ///
    /// # Errors
    ///
    /// Why the last attempt has no answer. A bad request, a short circuit, a cancellation and a
    /// call on a thread that must not make it are not tried again, and nothing is after the
    /// isolation was stopped or shut down.
    ///
    /// # Threads
    ///
    /// Pauses on the calling thread; where that must not block there is no pause.
    pub fn run_with_retry<F>(
        &self,
        retry: Retry,
        budget: &RetryBudget,
        work: F,
    ) -> Result<T, CommandError<E>>
    where
        F: Fn(&CancelToken) -> Result<T, E> + Clone + Send + 'static,
    {
        budget.earn();
        let mut attempt = 1;
        loop {
            let again = work.clone();
            let may_retry = attempt < retry.attempts;
            if !may_retry {
                return self.run(move |cancel| again(cancel));
            }
            let answer = self.call().no_fallback().run(move |cancel| again(cancel));
            let error = match answer {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            if !self.is_worth_another(&error) || !budget.try_spend() {
                return self.fall_back_from(error);
            }
            self.pause(retry.pause(attempt));
            if self.is_shut_down() {
                return self.fall_back_from(error);
            }
            self.count(Event::Retried);
            attempt += 1;
        }
    }

    /// The same for work that is a future: [`Command::run_with_retry`] without a thread that
    /// waits. Dropping the answer ends the attempt or the pause that is under way.
    ///
    /// # Errors
    ///
    /// As for [`Command::run_with_retry`].
    pub async fn run_async_with_retry<F, W>(
        &self,
        retry: Retry,
        budget: &RetryBudget,
        work: F,
    ) -> Result<T, CommandError<E>>
    where
        F: Fn(CancelToken) -> W,
        W: Future<Output = Result<T, E>>,
    {
        budget.earn();
        let mut attempt = 1;
        loop {
            if attempt >= retry.attempts {
                return self.run_async(&work).await;
            }
            let answer = self.call().no_fallback().run_async(&work).await;
            let error = match answer {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            if !self.is_worth_another(&error) || !budget.try_spend() {
                return self.fall_back_from(error);
            }
            let pause = as_nanos(retry.pause(attempt));
            if pause > 0 {
                let at = self.alarms().clock().nanos().saturating_add(pause);
                Pause::until(self.alarms(), self.aside(), at).await;
            }
            if self.is_shut_down() {
                return self.fall_back_from(error);
            }
            self.count(Event::Retried);
            attempt += 1;
        }
    }

    /// Whether another attempt may do better.
    fn is_worth_another(&self, error: &CommandError<E>) -> bool {
        error.cause().may_pass() && !self.is_shut_down()
    }

    fn pause(&self, pause: Duration) {
        if pause.is_zero() || check_may_block(None).is_err() {
            return;
        }
        let clock = self.alarms().clock().clock();
        let until = clock.nanos().saturating_add(as_nanos(pause));
        let parker = Parker::new();
        while clock.nanos() < until {
            clock.park_until(&parker, Some(until));
        }
    }
}
