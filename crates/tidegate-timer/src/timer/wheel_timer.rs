//! The timer that users hold, and its builder.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_core::{
    Clock, Executor, OnUnhandled, Rejected, Task, ThreadBuilder, Unhandled, prefetch_block,
};

use super::errors::TimerError;
use super::handle::TimerHandle;
use super::shared::{Cell, Settings, Shared};
use super::stopping::{self, Stopping, Unfired};
use super::task::TimerTask;
use crate::Wheel;

/// Timeouts from any thread, fired by one.
///
/// A handle: clones are the same timer. Its thread starts with the first timeout, sleeps until
/// the next one is due, however far that is, and ends with [`stop`](Self::stop) or when the last
/// clone is dropped (what is pending then is cancelled).
///
/// A timeout expires at the end of the tick in which its deadline lies: never early, at most one
/// tick late, plus what the tasks before it take if they run on the timer's thread. Give the
/// timer, or the timeout, an executor where that matters.
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
/// let (told, heard) = mpsc::channel();
/// let handle = timer.new_timeout(Duration::from_secs(5), move || told.send("too slow").unwrap())?;
///
/// clock.advance(Duration::from_secs(5));
/// assert_eq!(heard.try_recv(), Ok("too slow"));
/// assert!(handle.is_expired());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct WheelTimer {
    pub(super) owner: Arc<Owner>,
}

/// Ends the timer with its last handle.
pub(super) struct Owner {
    pub(super) shared: Arc<Shared>,
}

impl WheelTimer {
    /// The tick of a timer when nothing else is said.
    pub const DEFAULT_TICK: Duration = Duration::from_millis(100);
    /// The slots of a timer when nothing else is said.
    pub const DEFAULT_SLOTS: usize = 512;

    /// A timer as it is when nothing is said.
    #[must_use]
    pub fn new() -> Self {
        let timer = Self::builder("timer").build();
        timer.expect("the defaults are sound")
    }

    /// Describes a timer whose thread is called `name`.
    pub fn builder(name: impl Into<String>) -> WheelTimerBuilder {
        WheelTimerBuilder {
            name: name.into(),
            clock: Clock::system(),
            tick: Self::DEFAULT_TICK,
            slots: Self::DEFAULT_SLOTS,
            limit: usize::MAX,
            executor: None,
            threads: None,
            on_unhandled: OnUnhandled::stderr(),
        }
    }

    /// Starts the timer's thread now rather than with the first timeout. Twice is fine.
    ///
    /// # Errors
    ///
    /// When the timer was stopped, or no thread can be started.
    pub fn start(&self) -> Result<(), TimerError> {
        self.owner.shared.start()
    }

    /// Runs `run` when `after` has passed. A time too long to be counted never does.
    ///
    /// # Errors
    ///
    /// The task, when the bound of pending timeouts is reached, the timer was stopped, or no
    /// thread can be started.
    ///
    /// # Threads
    ///
    /// From any thread. `run` runs on the timer's executor, or else on its thread.
    pub fn new_timeout(
        &self,
        after: Duration,
        run: impl FnOnce() + Send + 'static,
    ) -> Result<TimerHandle, Rejected<Task>> {
        self.add(after, TimerTask::new(run))
            .map_err(|refused| refused.map(TimerTask::into_task))
    }

    /// Like [`new_timeout`](Self::new_timeout), with a say in where it runs and what happens
    /// when it is cancelled.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn add(
        &self,
        after: Duration,
        task: TimerTask,
    ) -> Result<TimerHandle, Rejected<TimerTask>> {
        let shared = &self.owner.shared;
        let cell = shared.add(after, task)?;
        Ok(TimerHandle::new(cell, Arc::clone(shared)))
    }

    /// Stops the timer: waits for its thread's end and answers every timeout that neither fired
    /// nor was cancelled, once, by deadline. Each is cancelled now; its `on_cancel` has run, here.
    ///
    /// A second stop answers nothing, and so does the first of a timer that never started.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate_timer::WheelTimer;
    ///
    /// let timer = WheelTimer::new();
    /// let handle = timer.new_timeout(Duration::from_secs(3600), || println!("tea"))?;
    /// let unfired = timer.stop()?;
    /// assert_eq!(unfired.len(), 1);
    /// assert!(handle.is_cancelled() && timer.pending() == 0);
    /// unfired.into_iter().for_each(|one| one.task.run()); // or not
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`TimerError::OwnThread`] from a task on the timer's own thread, and
    /// [`TimerError::Refused`] where a blocking wait is not allowed: on an event loop, or where
    /// the timer's thread waits for the caller's executor. Nothing happens then.
    pub fn stop(&self) -> Result<Vec<Unfired>, TimerError> {
        let shared = &self.owner.shared;
        let now = shared.clock.nanos();
        Ok(stopping::unfired(shared, now, shared.stop()?))
    }

    /// Begins to stop the timer and returns its end as a future: for event loops, and for tasks of
    /// the timer itself.
    ///
    /// From now on nothing is accepted. The future is ready when the timer's thread has ended, with
    /// what [`stop`](Self::stop) returns; hooks of cancelled timeouts run where it is polled. If it
    /// is dropped before, what did not fire is cancelled and dropped.
    ///
    /// # Errors
    ///
    /// [`TimerError::Starting`] from the spawner that starts the timer's thread.
    pub fn begin_stop(&self) -> Result<Stopping, TimerError> {
        let shared = &self.owner.shared;
        let begun = shared.begin_stop()?;
        Ok(Stopping::new(shared, begun))
    }

    /// Timeouts that have neither expired nor been cancelled.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.owner.shared.pending.load(Ordering::Relaxed)
    }

    /// What the timer has done so far.
    #[must_use]
    pub fn metrics(&self) -> TimerMetrics {
        let counts = &self.owner.shared.counts;
        TimerMetrics {
            pending: self.pending(),
            fired: counts.fired.load(Ordering::Relaxed),
            cancelled: counts.cancelled.load(Ordering::Relaxed),
            refused: counts.refused.load(Ordering::Relaxed),
            panicked: counts.panicked.load(Ordering::Relaxed),
            fell_back: counts.fell_back.load(Ordering::Relaxed),
            wakeups: counts.wakeups.load(Ordering::Relaxed),
            longest_task: Duration::from_nanos(counts.longest.load(Ordering::Relaxed)),
            in_wheel: self.owner.shared.core().wheel.len(),
        }
    }
}

impl Default for WheelTimer {
    fn default() -> Self {
        Self::new()
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
        // Without waiting: this may be the timer's own thread, and a drop should not hang.
        self.shared.abandon();
    }
}

/// What a [`WheelTimer`] has done so far.
///
/// # Examples
///
/// ```
/// let metrics = tidegate_timer::WheelTimer::new().metrics();
/// assert_eq!((metrics.pending, metrics.fired), (0, 0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimerMetrics {
    /// Timeouts that have neither expired nor been cancelled.
    pub pending: usize,
    /// Entries in the wheel; cancelled ones leave it at the thread's next turn, new ones come.
    pub in_wheel: usize,
    /// Timeouts that expired.
    pub fired: u64,
    /// Timeouts that were cancelled before.
    pub cancelled: u64,
    /// Timeouts that were refused because too many were pending.
    pub refused: u64,
    /// Tasks and hooks that panicked.
    pub panicked: u64,
    /// Tasks that ran on the timer's thread because their executor refused them.
    pub fell_back: u64,
    /// How often the timer's thread woke up.
    pub wakeups: u64,
    /// The longest time that a task kept the timer's thread.
    pub longest_task: Duration,
}

/// Describes a [`WheelTimer`].
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
    /// The clock by which the timer waits.
    pub fn clock(mut self, clock: impl Into<Clock>) -> Self {
        self.clock = clock.into();
        self
    }

    /// How exact the timer is; [`WheelTimer::DEFAULT_TICK`] when nothing is said. A short tick
    /// costs nothing while nothing is due.
    pub fn tick(mut self, tick: Duration) -> Self {
        self.tick = tick;
        self
    }

    /// Ticks of one turn, rounded up to a power of two; [`WheelTimer::DEFAULT_SLOTS`] when
    /// nothing is said.
    pub fn slots(mut self, slots: usize) -> Self {
        self.slots = slots;
        self
    }

    /// The most timeouts that may be pending; as many as there is memory for when nothing is
    /// said.
    pub fn max_pending(mut self, timeouts: usize) -> Self {
        self.limit = timeouts;
        self
    }

    /// Where timeouts run that do not say otherwise, instead of the timer's own thread.
    pub fn executor(mut self, executor: Arc<dyn Executor>) -> Self {
        self.executor = Some(executor);
        self
    }

    /// How the timer's thread is started.
    pub fn threads(mut self, threads: ThreadBuilder) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Hears of panics of tasks and hooks. Called with the timer's name, on a thread of the hook's
    /// own; see [`OnUnhandled`].
    pub fn on_unhandled(self, hear: impl Fn(&str, &Unhandled<'_>) + Send + Sync + 'static) -> Self {
        self.report_to(OnUnhandled::new(hear))
    }

    /// The same with a hook that others may have too; [`OnUnhandled::stderr`] unless given.
    pub fn report_to(mut self, hook: OnUnhandled) -> Self {
        self.on_unhandled = hook;
        self
    }

    /// Makes the timer. Its thread starts with the first timeout.
    ///
    /// # Errors
    ///
    /// [`TimerError::Geometry`] for a tick or a number of slots that is zero or too large.
    pub fn build(self) -> Result<WheelTimer, TimerError> {
        let wheel = Wheel::<Arc<Cell>>::new(self.tick, self.slots)?;
        let wheel = wheel.warmed_by(|cell| prefetch_block(&**cell));
        let threads = self.threads;
        let threads = threads.unwrap_or_else(|| ThreadBuilder::new(self.name.clone()));
        let threads = threads.or_report_to(&self.on_unhandled);
        let settings = Settings {
            name: self.name,
            clock: self.clock,
            executor: self.executor,
            on_unhandled: self.on_unhandled,
            limit: self.limit,
            threads,
        };
        let shared = Arc::new(Shared::new(wheel, settings));
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
