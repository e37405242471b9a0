//! What a loop shows of itself: plain counters, written by one thread, read by any.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tidegate_core::RunningTask;
use tidegate_core::internal::Counter;

/// The loop tells listeners or polls futures.
pub(crate) const IN_SIGNALS: u64 = 1;

/// The loop drops timers or futures that will not run.
pub(crate) const IN_DROPS: u64 = 2;

/// Counters of one loop. All but the last group are written by the loop's thread only.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) turns: Counter,
    /// When the current turn began, on the loop's clock.
    pub(crate) heartbeat: Counter,
    pub(crate) high_water: Counter,
    pub(crate) panics: Counter,
    pub(crate) timers_run: Counter,
    pub(crate) lateness_max: Counter,
    pub(crate) lateness_sum: Counter,
    pub(crate) busy: Counter,
    /// When the loop last woke up; 0 while it sleeps.
    pub(crate) awake_since: Counter,
    /// When the loop's thread first ran.
    pub(crate) since: Counter,
    pub(crate) sleeps: Counter,
    pub(crate) longest: Counter,
    pub(crate) timers: Counter,
    /// What the loop does beside tasks: [`IN_SIGNALS`], [`IN_DROPS`], or 0.
    pub(crate) place: Counter,
    pub(crate) futures: Counter,
    /// Places in the lane that the loop reserved for itself and that no task uses.
    pub(crate) spare: Counter,
    /// While the loop takes tasks out of its lane: tasks started when it last said how far it
    /// has come, plus one. Otherwise 0.
    pub(crate) told_at: Counter,
    pub(crate) fell_back: AtomicU64,
    pub(crate) listener_panics: AtomicU64,
    pub(crate) wakeups: AtomicU64,
    pub(crate) refused: AtomicU64,
}

/// A look at a loop. Taken without stopping it, so the figures belong to nearly the same moment.
///
/// ```
/// use tidegate_loop::EventLoop;
///
/// let home = EventLoop::builder("home").build()?;
/// home.submit(|| ())?.wait()?;
/// let metrics = home.metrics();
/// assert!(metrics.tasks_run >= 1);
/// assert_eq!(metrics.tasks_pending, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LoopMetrics {
    /// Tasks started so far, timers and futures' first polls included.
    pub tasks_run: u64,
    /// Tasks accepted and not started.
    pub tasks_pending: usize,
    /// The most tasks that were seen waiting. Looked at where it costs the producers nothing: after a
    /// sleep, when a turn could not take all, and in the loop's own queue; a lower bound.
    pub high_water: u64,
    /// Tasks refused because the lane was full or closed.
    pub refused: u64,
    /// Tasks that panicked.
    pub panics: u64,
    /// Listeners that panicked.
    pub listener_panics: u64,
    /// Notifications that ran elsewhere because this loop had terminated.
    pub fell_back: u64,
    /// Scheduled tasks waiting for their time, as the loop saw them in its last turn. One that was
    /// added while the loop sleeps and is due later than what it sleeps for does not wake it, and
    /// is counted when it wakes up.
    pub timers_pending: u64,
    /// Scheduled runs so far.
    pub timers_run: u64,
    /// The most that a scheduled task was late.
    pub lateness_max: Duration,
    /// The mean of how late scheduled tasks were.
    pub lateness_mean: Duration,
    /// Live spawned futures.
    pub futures: u64,
    /// Share of the time in which the loop was not asleep, from 0 to 1.
    pub busy_ratio: f64,
    /// Time in which it was not asleep.
    pub busy: Duration,
    /// Turns of the loop.
    pub turns: u64,
    /// Times it went to sleep.
    pub sleeps: u64,
    /// Wakeups that others sent it.
    pub wakeups: u64,
    /// How long ago its current or last turn began; a sleeping loop's grows without harm.
    pub heartbeat_age: Duration,
    /// The longest run of tasks between two looks at the clock (a single task where every task
    /// is timed), and its name.
    pub longest: Duration,
    /// The task that ended the longest run, if any was noted.
    pub longest_task: Option<&'static str>,
    /// What it runs right now.
    pub running: Option<RunningTask>,
}
