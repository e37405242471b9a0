//! Hedging: a second attempt beside a first one that takes longer than most.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate_core::internal::as_nanos;
use tidegate_core::{CancelToken, Task};

use crate::alarm::{TimerTaskId, WakerSlot};
use crate::command::Command;
use crate::error::{Cause, CommandError};
use crate::event::Event;

/// When a second attempt is started: after the time that most calls take.
///
/// ```
/// use tidegate_isolate::Hedge;
///
/// assert_eq!(Hedge::default().percentile, 95.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hedge {
    /// The percentile of the command's own latencies after which the second attempt begins.
    pub percentile: f64,
    /// The fewest latencies that mean something; with fewer there is no second attempt.
    pub min_samples: u64,
    /// The second attempt never begins earlier.
    pub at_least: Duration,
}

impl Default for Hedge {
    fn default() -> Self {
        Self {
            percentile: 95.0,
            min_samples: 20,
            at_least: Duration::from_millis(1),
        }
    }
}

type Attempt<T, E> = Pin<Box<dyn Future<Output = Result<T, CommandError<E>>> + Send>>;

/// The future of [`Command::run_hedged`] and [`Command::run_hedged_on_threads`].
#[must_use = "a future does nothing until it is polled"]
pub struct RunHedged<T: Send + 'static, E: Send + 'static> {
    command: Command<T, E>,
    hedge: Hedge,
    start: Box<dyn Fn() -> Attempt<T, E> + Send>,
    attempts: Vec<Attempt<T, E>>,
    begun: bool,
    /// When the second attempt begins, once the first is under way.
    second_at: Option<u64>,
    alarm: Option<TimerTaskId>,
    waker: Arc<WakerSlot>,
    failed: Option<CommandError<E>>,
}

impl<T: Send + 'static, E: Send + 'static> Command<T, E> {
    /// Runs the future that `work` makes, and a second one beside it if the first takes longer
    /// than most; the first answer wins and the other is dropped. Each attempt takes a permit of
    /// its own, so a full bulkhead has no second attempts.
    pub fn run_hedged<F, W>(&self, hedge: Hedge, work: F) -> RunHedged<T, E>
    where
        F: Fn(CancelToken) -> W + Clone + Send + 'static,
        W: Future<Output = Result<T, E>> + Send + 'static,
    {
        let command = self.clone();
        self.hedged(hedge, move || {
            let work = work.clone();
            let call = command.call().no_fallback();
            Box::pin(call.run_async(work)) as Attempt<T, E>
        })
    }

    /// The same for work that blocks, of a command with threads: each attempt is queued as a call
    /// of its own, and the one that comes too late is cancelled. It leaves the queue at once; one
    /// that runs is told through its token as `interrupt_on_cancel` says.
    pub fn run_hedged_on_threads<F>(&self, hedge: Hedge, work: F) -> RunHedged<T, E>
    where
        F: Fn(&CancelToken) -> Result<T, E> + Clone + Send + 'static,
    {
        let command = self.clone();
        self.hedged(hedge, move || {
            let (work, key) = (work.clone(), command.key().clone());
            let answer = command.call().no_fallback().queue(move |token| work(token));
            let answer = answer.cancel_on_drop();
            Box::pin(async move {
                answer.await.map_err(|error| match error.failure() {
                    Some(error) => error,
                    None => CommandError::new(key, Cause::Cancelled),
                })
            }) as Attempt<T, E>
        })
    }

    fn hedged(
        &self,
        hedge: Hedge,
        start: impl Fn() -> Attempt<T, E> + Send + 'static,
    ) -> RunHedged<T, E> {
        RunHedged {
            command: self.clone(),
            hedge,
            start: Box::new(start),
            attempts: Vec::new(),
            begun: false,
            second_at: None,
            alarm: None,
            waker: Arc::default(),
            failed: None,
        }
    }
}

impl<T: Send + 'static, E: Send + 'static> RunHedged<T, E> {
    fn begin(&mut self) {
        self.begun = true;
        self.attempts.push((self.start)());
        let latencies = self.command.snapshot().latencies.total;
        if latencies.count() >= self.hedge.min_samples {
            let after = latencies.percentile(self.hedge.percentile);
            let after = as_nanos(after.max(self.hedge.at_least));
            let alarms = self.command.alarms();
            let at = alarms.clock().nanos().saturating_add(after);
            let waker = Arc::clone(&self.waker);
            let wake = Task::new(move || waker.wake());
            self.second_at = Some(at);
            self.alarm = Some(alarms.run_at(at, self.command.aside(), wake));
        }
    }

    /// Starts the second attempt if it is due.
    fn begin_second(&mut self) {
        let now = self.command.alarms().clock().nanos();
        if self.second_at.is_some_and(|at| now >= at) {
            self.second_at = None;
            if self.command.is_shut_down() {
                return;
            }
            self.command.count(Event::Hedged);
            self.attempts.push((self.start)());
        }
    }
}

/// Nothing in it is pinned: the attempts have boxes of their own.
impl<T: Send + 'static, E: Send + 'static> Unpin for RunHedged<T, E> {}

impl<T: Send + 'static, E: Send + 'static> Future for RunHedged<T, E> {
    type Output = Result<T, CommandError<E>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.waker.set(context.waker());
        if !this.begun {
            this.begin();
        }
        this.begin_second();
        let mut at = 0;
        while at < this.attempts.len() {
            match this.attempts[at].as_mut().poll(context) {
                Poll::Pending => at += 1,
                Poll::Ready(answer) => {
                    drop(this.attempts.swap_remove(at));
                    match answer {
                        Ok(value) => {
                            this.attempts.clear();
                            return Poll::Ready(Ok(value));
                        }
                        // The first cause is kept: the second attempt may only have been refused.
                        Err(error) => drop(this.failed.get_or_insert(error)),
                    }
                }
            }
        }
        if !this.attempts.is_empty() {
            return Poll::Pending;
        }
        let error = this
            .failed
            .take()
            .expect("every attempt has ended, none with a value");
        Poll::Ready(this.command.fall_back_from(error))
    }
}

impl<T: Send + 'static, E: Send + 'static> Drop for RunHedged<T, E> {
    fn drop(&mut self) {
        if let Some(alarm) = self.alarm.take() {
            self.command.alarms().cancel(alarm);
        }
    }
}

impl<T: Send + 'static, E: Send + 'static> fmt::Debug for RunHedged<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunHedged")
            .field("command", &self.command)
            .field("attempts", &self.attempts.len())
            .finish_non_exhaustive()
    }
}
