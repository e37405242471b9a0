//! What a loop shows of itself: plain counters, written by one thread, read by any.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_core::internal::Counter;
use tidegate_core::prim::{Mutex, lock};
use tidegate_core::{CachePadded, Clock, Running, RunningTask, Unhandled};

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
    /// Tasks that panicked; those of a roaming loop do so on several threads.
    pub(crate) panics: AtomicU64,
    pub(crate) listener_panics: AtomicU64,
    pub(crate) wakeups: AtomicU64,
    pub(crate) refused: AtomicU64,
}

/// What one loop has done so far, and what it is doing.
#[derive(Default)]
pub(crate) struct Meter {
    /// On lines of their own: the loop writes them every turn, producers read what lies around.
    pub(crate) counters: CachePadded<Counters>,
    pub(crate) running: Arc<Running>,
    longest_task: Mutex<Option<&'static str>>,
}

impl Meter {
    /// Notes that a timer ran, `late` nanoseconds after its time.
    pub(crate) fn note_lateness(&self, late: u64) {
        let counters = &self.counters;
        counters.timers_run.add(1);
        counters.lateness_sum.add(late);
        counters.lateness_max.raise_to(late);
    }

    /// Notes how long the tasks since the last look at the clock took, if that is the longest.
    pub(crate) fn note_longest(&self, now: u64) {
        let run = now.saturating_sub(self.counters.heartbeat.get());
        if run > self.counters.longest.get() {
            let name = self.running.now().map_or("", |task| task.name);
            self.note_run(name, run);
        }
    }

    /// Notes how long the task called `name` took, if that is the longest.
    pub(crate) fn note_run(&self, name: &'static str, nanos: u64) {
        if nanos > self.counters.longest.get() {
            self.counters.longest.set(nanos);
            *lock(&self.longest_task) = Some(name);
        }
    }

    /// Counts what is about to be reported as unhandled. Panics of tasks are counted where they are
    /// caught.
    pub(crate) fn count_unhandled(&self, what: &Unhandled<'_>) {
        match what {
            Unhandled::ListenerPanic { .. } => {
                self.counters
                    .listener_panics
                    .fetch_add(1, Ordering::Relaxed);
            }
            Unhandled::ListenerFellBack => {
                self.counters.fell_back.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    /// Nanoseconds that the loop was awake, this moment included.
    pub(crate) fn busy_nanos(&self, clock: &Clock) -> u64 {
        let awake_since = self.counters.awake_since.get();
        let now = if awake_since == 0 {
            0
        } else {
            clock.nanos().saturating_sub(awake_since)
        };
        self.counters.busy.get() + now
    }

    /// Tasks accepted and not started, of `in_lane` that the lane counts. The lane counts what the
    /// loop has reserved or taken and not told yet; of a loop that stands still in a task this is
    /// exact.
    pub(crate) fn pending(&self, in_lane: usize) -> usize {
        let started = self.running.started() + 1;
        let taken = match self.counters.told_at.get() {
            0 => 0,
            told_at => started.saturating_sub(told_at),
        };
        let not_waiting = taken.saturating_add(self.counters.spare.get());
        let not_waiting = usize::try_from(not_waiting).unwrap_or(usize::MAX);
        in_lane.saturating_sub(not_waiting)
    }

    /// The figures of this moment; `in_lane` as for [`Meter::pending`].
    pub(crate) fn metrics(&self, clock: &Clock, in_lane: usize) -> LoopMetrics {
        let counters = &self.counters;
        let now = clock.nanos();
        let since = counters.since.get();
        let alive = if since == 0 {
            0
        } else {
            now.saturating_sub(since)
        };
        let busy = self.busy_nanos(clock);
        let timers_run = counters.timers_run.get();
        let lateness = counters.lateness_sum.get().checked_div(timers_run);
        LoopMetrics {
            tasks_run: self.running.started(),
            tasks_pending: self.pending(in_lane),
            high_water: counters.high_water.get(),
            refused: counters.refused.load(Ordering::Relaxed),
            panics: counters.panics.load(Ordering::Relaxed),
            listener_panics: counters.listener_panics.load(Ordering::Relaxed),
            fell_back: counters.fell_back.load(Ordering::Relaxed),
            timers_pending: counters.timers.get(),
            timers_run,
            lateness_max: Duration::from_nanos(counters.lateness_max.get()),
            lateness_mean: Duration::from_nanos(lateness.unwrap_or(0)),
            futures: counters.futures.get(),
            busy_ratio: if alive == 0 {
                0.0
            } else {
                (busy as f64 / alive as f64).min(1.0)
            },
            busy: Duration::from_nanos(busy),
            turns: counters.turns.get(),
            sleeps: counters.sleeps.get(),
            wakeups: counters.wakeups.load(Ordering::Relaxed),
            heartbeat_age: Duration::from_nanos(now.saturating_sub(counters.heartbeat.get())),
            longest: Duration::from_nanos(counters.longest.get()),
            longest_task: *lock(&self.longest_task),
            running: self.running.now(),
        }
    }
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
