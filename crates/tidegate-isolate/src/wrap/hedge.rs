//! Hedged calls: a second attempt starts if the first takes longer than most calls.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate_core::internal::contain;

use super::budget::RetryBudget;
use super::retry::pause_of;
use crate::alarm::Pause;
use crate::command::{Call, Command};
use crate::error::CommandError;
use crate::event::Event;

/// The settings of a hedged call: its second attempt starts after the time that most calls take.
///
/// When a dependency becomes slow, more calls than usual take that long. A budget limits second attempts
/// to a share of the calls then, so keep one value for all calls.
///
/// ```
/// use tidegate_isolate::{Command, Hedge, Isolation};
///
/// # async fn ask() -> std::io::Result<u32> { Ok(42) }
/// # async fn price(isolation: &Isolation) -> Result<u32, Box<dyn std::error::Error>> {
/// let prices: Command<u32, std::io::Error> =
///     Command::builder("prices").group("catalog").build(isolation)?;
/// let hedge = Hedge { percentile: 99.0, ..Hedge::default() };
/// let price = hedge.run_async(prices.call(), |attempt| attempt.run_async(|_cancel| ask()));
/// # Ok(
/// price.await?
/// # )
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Hedge {
    /// The percentile of the command's own latencies after which the second attempt begins.
    pub percentile: f64,
    /// The smallest number of recorded latencies for which the percentile is used. With fewer,
    /// there is no second attempt.
    pub min_samples: u64,
    /// The shortest time after which the second attempt begins.
    pub at_least: Duration,
    /// The budget that second attempts are taken from. By default, they are limited to 20 % of the calls
    /// and 3 more. Clones share it, and so may retries.
    pub budget: RetryBudget,
}

impl Default for Hedge {
    fn default() -> Self {
        Self {
            percentile: 95.0,
            min_samples: 20,
            at_least: Duration::from_millis(1),
            budget: RetryBudget::default(),
        }
    }
}

impl Hedge {
    /// Makes an attempt of `call` with `attempt`, and a second one next to it if the first takes
    /// longer than most calls and the budget allows it. The first value wins, and the other attempt is dropped. If both
    /// fail, returns the error that came first.
    ///
    /// Each attempt needs a permit of its own, so no second attempt runs while the bulkhead is
    /// full. For work that blocks, an attempt is
    /// `|call| call.queue(work.clone()).cancel_on_drop()`.
    #[must_use = "a future does nothing until it is polled"]
    pub fn run_async<T, E, F, W, X>(
        &self,
        call: Call<T, E>,
        attempt: F,
    ) -> impl Future<Output = Result<T, CommandError<E>>> + use<T, E, F, W, X>
    where
        T: Send + 'static,
        E: Send + 'static,
        F: FnMut(Call<T, E>) -> W,
        W: Future<Output = Result<T, X>>,
        X: Into<CommandError<E>>,
    {
        let hedge = self.clone();
        call.with_cache_async(move |call| hedge.race(call, attempt))
    }

    async fn race<T, E, F, W, X>(
        self,
        mut call: Call<T, E>,
        mut attempt: F,
    ) -> Result<T, CommandError<E>>
    where
        T: Send + 'static,
        E: Send + 'static,
        F: FnMut(Call<T, E>) -> W,
        W: Future<Output = Result<T, X>>,
        X: Into<CommandError<E>>,
    {
        self.budget.earn();
        let mut first = pin!(Some(attempt(call.attempt())));
        let mut second = pin!(None);
        let after = self.delay(call.command());
        let mut pause = after.map(|after| pause_of(call.command(), after));
        let mut failed = None;
        // A mutable borrow, because a call is `Send` but not `Sync`.
        let whole = &mut call;
        let raced = poll_fn(move |context| {
            let mut value_of = |answer| match answer {
                Some(Ok(value)) => Some(value),
                Some(Err(error)) => {
                    // Keeps the first error: the second attempt may only have been rejected.
                    failed.get_or_insert(error);
                    None
                }
                None => None,
            };
            let won = value_of(poll_attempt(&mut first, context));
            // Polled after the first attempt, which may have ended while nobody polled.
            let is_due = |pause: &mut Pause| Pin::new(pause).poll(context).is_ready();
            if first.is_some() && pause.as_mut().is_some_and(is_due) {
                pause = None;
                let may_begin = !whole.command().is_shut_down() && !whole.is_cancelled();
                if may_begin && self.budget.try_spend() {
                    whole.count(Event::Hedged);
                    second.set(Some(attempt(whole.attempt())));
                }
            }
            let won = won.or_else(|| value_of(poll_attempt(&mut second, context)));
            if let Some(value) = won {
                // Drops the losing attempt before the value is returned.
                end_attempt(&mut first);
                end_attempt(&mut second);
                return Poll::Ready(Ok(value));
            }
            match failed.take_if(|_| first.is_none() && second.is_none()) {
                Some(error) => Poll::Ready(Err(error)),
                None => Poll::Pending,
            }
        });
        match raced.await {
            Ok(value) => Ok(value),
            Err(error) => call.finish_async(error).await,
        }
    }

    /// Returns the time until the second attempt, or `None` if too few latencies were recorded.
    pub(super) fn delay<T: Send + 'static, E: Send + 'static>(
        &self,
        command: &Command<T, E>,
    ) -> Option<Duration> {
        let latencies = command.total_latencies();
        if latencies.count() < self.min_samples {
            return None;
        }
        Some(latencies.percentile(self.percentile).max(self.at_least))
    }
}

/// Polls an attempt, and drops it when it is ready. Returns `None` if there is no attempt or it is
/// pending.
fn poll_attempt<T, E, W, X>(
    attempt: &mut Pin<&mut Option<W>>,
    context: &mut Context<'_>,
) -> Option<Result<T, CommandError<E>>>
where
    W: Future<Output = Result<T, X>>,
    X: Into<CommandError<E>>,
{
    let polled = attempt.as_mut().as_pin_mut()?.poll(context);
    let Poll::Ready(answer) = polled else {
        return None;
    };
    end_attempt(attempt);
    Some(answer.map_err(Into::into))
}

/// Drops an attempt. Its `Drop` is user code: a panic in it must not cost the caller a result.
fn end_attempt<W>(attempt: &mut Pin<&mut Option<W>>) {
    let _ = contain(|| attempt.set(None));
}
