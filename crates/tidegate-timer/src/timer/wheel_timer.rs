//! [`WheelTimer`], its builder, and the description of its counters for an exporter.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::internal::prim::Mutex;
use tidegate_core::{
    Clock, Collect, Dump, Executor, Metric, MetricVisitor, OnUnhandled, Parker, Rejected, Task,
    ThreadBuilder, Unhandled,
};

use super::errors::TimerError;
use super::handle::TimerHandle;
use super::metrics::TimerMetrics;
use super::shared::{Core, Shared};
use super::shutdown::Shutdown;
use super::task::TimerTask;
use crate::wheel::Wheel;

/// A timer: any thread adds timeouts, and the timer's thread fires them.
///
/// This is a handle: clones refer to the same timer. The timer's thread starts with the first
/// timeout and sleeps until the next one is due, however far that is. It ends with
/// [`shutdown`](Self::shutdown), or when the last clone is dropped, which cancels the pending
/// timeouts.
///
/// A timeout expires at the end of the tick that contains its deadline: never early, and at most
/// one tick late, plus the run time of earlier tasks if they run on the timer's thread. Where that
/// matters, set an executor for the timer or for the timeout.
///
/// # Examples
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use tidegate_core::ManualClock;
/// use tidegate_timer::WheelTimer;
///
/// let clock = ManualClock::new();
/// let timer = WheelTimer::builder("requests").clock(&clock).build()?;
/// let (sender, receiver) = mpsc::channel();
/// let handle = timer.schedule(Duration::from_secs(5), move || sender.send("too slow").unwrap())?;
///
/// clock.advance(Duration::from_secs(5));
/// assert_eq!(receiver.try_recv(), Ok("too slow"));
/// assert!(handle.is_expired());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct WheelTimer {
    pub(super) owner: Arc<Owner>,
}

/// Stops the timer when its last handle is dropped.
pub(super) struct Owner {
    pub(super) shared: Arc<Shared>,
}

impl WheelTimer {
    /// The default tick.
    pub const DEFAULT_TICK: Duration = Duration::from_millis(100);
    /// The default number of slots.
    pub const DEFAULT_SLOTS: usize = 512;

    /// Creates a timer with default settings.
    #[must_use]
    pub fn new() -> Self {
        let timer = Self::builder("timer").build();
        timer.expect("the defaults are sound")
    }

    /// Creates a builder for a timer whose thread is called `name`.
    pub fn builder(name: impl Into<String>) -> WheelTimerBuilder {
        WheelTimerBuilder {
            name: name.into(),
            clock: Clock::system(),
            tick: Self::DEFAULT_TICK,
            slots: Self::DEFAULT_SLOTS,
            limit: usize::MAX,
            executor: None,
            threads: None,
            on_unhandled: OnUnhandled::default(),
        }
    }

    /// Starts the timer's thread now instead of with the first timeout. Does nothing if it is
    /// running.
    ///
    /// # Errors
    ///
    /// Returns an error if the timer was stopped, or if the thread cannot be started.
    pub fn start(&self) -> Result<(), TimerError> {
        self.owner.shared.start()
    }

    /// Runs `run` after the duration `after`. A duration that overflows the clock never expires.
    ///
    /// # Errors
    ///
    /// Returns the task if the limit of pending timeouts is reached, the timer was stopped, or the
    /// thread cannot be started.
    ///
    /// # Threads
    ///
    /// Can be called from any thread. `run` runs on the timer's executor or, if there is none, on
    /// the timer's thread.
    pub fn schedule(
        &self,
        after: Duration,
        run: impl FnOnce() + Send + 'static,
    ) -> Result<TimerHandle, Rejected<Task>> {
        self.schedule_task(after, TimerTask::new(run))
            .map_err(|refused| refused.map(TimerTask::into_task))
    }

    /// Like [`schedule`](Self::schedule), for a task with its own executor or a hook for
    /// cancellation.
    ///
    /// # Errors
    ///
    /// The same as for [`schedule`](Self::schedule).
    pub fn schedule_task(
        &self,
        after: Duration,
        task: TimerTask,
    ) -> Result<TimerHandle, Rejected<TimerTask>> {
        self.owner.shared.add(after, task)
    }

    /// Shuts the timer down. From now on it rejects timeouts. The returned future is ready when the
    /// timer's thread has ended; it reports the timeouts that did not fire.
    ///
    /// A program waits with [`Shutdown::wait`]. An event loop and a task of the timer itself await
    /// the future instead.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate_timer::WheelTimer;
    ///
    /// let timer = WheelTimer::new();
    /// let handle = timer.schedule(Duration::from_secs(3600), || println!("tea"))?;
    /// let report = timer.shutdown().wait()?;
    /// assert_eq!(report.unfired.len(), 1);
    /// assert!(handle.is_cancelled() && timer.pending() == 0);
    /// report.unfired.into_iter().for_each(|one| one.task.run()); // or not
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shutdown(&self) -> Shutdown {
        Shutdown::begin(&self.owner.shared)
    }

    /// Returns the name of the timer.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.owner.shared.name
    }

    /// Returns the number of timeouts that have neither expired nor been cancelled.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.owner.shared.core().wheel.len()
    }

    /// Returns the counters of the timer.
    #[must_use]
    pub fn metrics(&self) -> TimerMetrics {
        let core = self.owner.shared.core();
        TimerMetrics {
            pending: core.wheel.len(),
            ..core.counts
        }
    }

    /// Returns the state of the timer as a tree: its thread, its limit and its counters. Never
    /// waits for a task.
    ///
    /// # Examples
    ///
    /// ```
    /// let timer = tidegate_timer::WheelTimer::new();
    /// assert_eq!(timer.dump().get("pending").and_then(|pending| pending.as_count()), Some(0));
    /// ```
    pub fn dump(&self) -> Dump {
        let shared = &self.owner.shared;
        let (state, thread) = shared.core().describe();
        let metrics = self.metrics();
        let limit = (shared.limit < usize::MAX).then_some(shared.limit);
        Dump::new("timer", &shared.name)
            .fact("state", state)
            .fact_if("thread", thread)
            .fact_if("executor", shared.executor.as_ref().map(|one| one.name()))
            .fact("pending", metrics.pending)
            .fact_if("limit", limit)
            .fact("fired", metrics.fired)
            .fact("cancelled", metrics.cancelled)
            .fact("refused", metrics.refused)
            .fact("panics", metrics.panicked)
    }
}

impl Default for WheelTimer {
    fn default() -> Self {
        Self::new()
    }
}

/// The metrics of the timer. The label `timer` is its name.
impl Collect for WheelTimer {
    fn collect(&self, visitor: &mut dyn MetricVisitor) {
        let metrics = self.metrics();
        let labels = [("timer", self.name())];
        for (name, help, value) in [
            (
                "tidegate_timer_fired",
                "Timeouts that expired.",
                metrics.fired,
            ),
            (
                "tidegate_timer_cancelled",
                "Timeouts that were cancelled before they expired.",
                metrics.cancelled,
            ),
            (
                "tidegate_timer_refused",
                "Timeouts refused because too many were pending.",
                metrics.refused,
            ),
            (
                "tidegate_timer_panics",
                "Tasks and hooks that panicked.",
                metrics.panicked,
            ),
            (
                "tidegate_timer_tasks_moved",
                "Tasks that ran on the timer's thread because their executor refused them.",
                metrics.fell_back,
            ),
            (
                "tidegate_timer_wakeups",
                "Times that the timer's thread woke up.",
                metrics.wakeups,
            ),
        ] {
            visitor.counter(Metric::new(name, help), &labels, value as f64);
        }
        let help = "Timeouts that have neither expired nor been cancelled.";
        let pending = Metric::new("tidegate_timer_pending", help);
        visitor.gauge(pending, &labels, metrics.pending as f64);
        let help = "Longest run of a task on the timer's thread.";
        let longest = Metric::new("tidegate_timer_task_max", help).seconds();
        visitor.gauge(longest, &labels, metrics.longest_task.as_secs_f64());
    }
}

impl fmt::Debug for WheelTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WheelTimer")
            .field("name", &self.owner.shared.name)
            .field("pending", &self.pending())
            .finish_non_exhaustive()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // Does not wait: this may be the timer's own thread, and a drop should not block.
        self.shared.abandon();
    }
}

/// Builder of a [`WheelTimer`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use tidegate_timer::WheelTimer;
///
/// let timer = WheelTimer::builder("connect")
///     .tick(Duration::from_millis(10))
///     .slots(4096)
///     .max_pending(100_000)
///     .build()?;
/// # Ok::<(), tidegate_timer::TimerError>(())
/// ```
#[must_use = "it makes nothing until it is built"]
pub struct WheelTimerBuilder {
    name: String,
    clock: Clock,
    tick: Duration,
    slots: usize,
    limit: usize,
    executor: Option<Arc<dyn Executor>>,
    threads: Option<ThreadBuilder>,
    on_unhandled: OnUnhandled,
}

impl WheelTimerBuilder {
    /// Sets the clock. The default is the system clock.
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = clock.into();
        self
    }

    /// Sets the tick, which is the precision of the timer; the default is
    /// [`WheelTimer::DEFAULT_TICK`]. A short tick costs nothing while nothing is due.
    pub fn tick(mut self, tick: Duration) -> Self {
        self.tick = tick;
        self
    }

    /// Sets the number of ticks per turn of the wheel, rounded up to a power of two; the default is
    /// [`WheelTimer::DEFAULT_SLOTS`].
    pub fn slots(mut self, slots: usize) -> Self {
        self.slots = slots;
        self
    }

    /// Sets the maximum number of pending timeouts; the default is no limit.
    pub fn max_pending(mut self, timeouts: usize) -> Self {
        self.limit = timeouts;
        self
    }

    /// Sets the executor for timeouts that do not have their own; the default is the timer's own
    /// thread.
    pub fn executor(mut self, executor: Arc<dyn Executor>) -> Self {
        self.executor = Some(executor);
        self
    }

    /// Sets how the timer's thread is started. A spawner must not use the timer.
    pub fn threads(mut self, threads: ThreadBuilder) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Sets a callback for panics of tasks and hooks. It is called with the timer's name, on a
    /// thread of its own; see [`OnUnhandled`].
    pub fn on_unhandled(self, hook: impl Fn(&str, &Unhandled<'_>) + Send + Sync + 'static) -> Self {
        self.report_to(OnUnhandled::new(hook))
    }

    /// Sets the hook for panics, which may be shared; the default is [`OnUnhandled::default`].
    pub fn report_to(mut self, hook: OnUnhandled) -> Self {
        self.on_unhandled = hook;
        self
    }

    /// Creates the timer. Its thread starts with the first timeout.
    ///
    /// # Errors
    ///
    /// Returns [`TimerError::Geometry`] if the tick or the number of slots is zero or too large.
    pub fn build(self) -> Result<WheelTimer, TimerError> {
        let wheel = Wheel::new(self.tick, self.slots)?;
        let threads = self.threads;
        let threads = threads.unwrap_or_else(|| ThreadBuilder::new(self.name.clone()));
        let threads = threads.or_report_to(&self.on_unhandled);
        let shared = Arc::new(Shared {
            name: self.name,
            clock: self.clock,
            parker: Parker::new(),
            executor: self.executor,
            on_unhandled: self.on_unhandled,
            limit: self.limit,
            threads: Mutex::new(threads),
            core: Mutex::new(Core::new(wheel)),
        });
        Ok(WheelTimer {
            owner: Arc::new(Owner { shared }),
        })
    }
}

impl fmt::Debug for WheelTimerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WheelTimerBuilder")
            .field("name", &self.name)
            .field("tick", &self.tick)
            .field("slots", &self.slots)
            .field("max_pending", &self.limit)
            .finish_non_exhaustive()
    }
}
