//! The metrics of an event loop: counters that the loop's thread writes and any thread reads.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_core::internal::prim::{Mutex, lock};
use tidegate_core::internal::trace::{self, EventLimit};
use tidegate_core::internal::{CachePadded, Counter, Running, RunningTask};
use tidegate_core::{Clock, Unhandled};

/// The value of `place` while the event loop notifies listeners or polls futures.
pub(crate) const IN_SIGNALS: u64 = 1;

/// The value of `place` while the event loop drops timers or futures that will not run.
pub(crate) const IN_DROPS: u64 = 2;

/// The number of nanoseconds from which tasks that keep the event loop are reported as slow.
pub(crate) const SLOW: u64 = 100_000_000;

/// The counters of one event loop. Only its thread writes them, except for the `AtomicU64`s at the
/// end.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) turns: Counter,
    /// The time at which the current turn began, or of the last clock read between its tasks if
    /// there was one, on the event loop's clock.
    pub(crate) heartbeat: Counter,
    pub(crate) high_water: Counter,
    pub(crate) timers_run: Counter,
    pub(crate) lateness_max: Counter,
    pub(crate) lateness_sum: Counter,
    pub(crate) busy: Counter,
    /// The time at which the event loop last woke up; 0 while it sleeps.
    pub(crate) awake_since: Counter,
    /// The time at which the event loop's thread first ran.
    pub(crate) started_at: Counter,
    pub(crate) sleeps: Counter,
    pub(crate) longest: Counter,
    pub(crate) timers: Counter,
    /// What the event loop does besides tasks: [`IN_SIGNALS`], [`IN_DROPS`], or 0. The error of a
    /// shutdown that is stuck reports it.
    pub(crate) activity: Counter,
    pub(crate) futures: Counter,
    /// 1 while a strategy has a thread inside the event loop, looking or waiting for a task.
    pub(crate) producing: Counter,
    /// Slots in the lane that the event loop reserved for its own tasks and has not used.
    pub(crate) spare: Counter,
    /// While the event loop takes tasks from its lane: the number of tasks that were started when
    /// it last published its progress to producers, plus one. Otherwise 0.
    pub(crate) published_at: Counter,
    pub(crate) fell_back: AtomicU64,
    /// Tasks that panicked. Tasks of a roaming loop panic on several threads.
    pub(crate) panics: AtomicU64,
    pub(crate) listener_panics: AtomicU64,
    pub(crate) wakeups: AtomicU64,
    pub(crate) refused: AtomicU64,
}

/// What one event loop has done so far, and what it is doing now.
#[derive(Default)]
pub(crate) struct LoopCounters {
    /// On cache lines of their own: the event loop writes them in every turn, and producers read
    /// the fields around them.
    pub(crate) counters: CachePadded<Counters>,
    pub(crate) running: Arc<Running>,
    longest_task: Mutex<Option<&'static str>>,
    slow_tasks: EventLimit,
    pub(crate) refusals: EventLimit,
}

impl LoopCounters {
    /// Records that a timer ran `late` nanoseconds after its deadline.
    pub(crate) fn note_lateness(&self, late: u64) {
        let counters = &self.counters;
        counters.timers_run.add(1);
        counters.lateness_sum.add(late);
        counters.lateness_max.raise_to(late);
    }

    /// Records how long the tasks since `heartbeat` took, if that is a new maximum. Called at a
    /// clock read between tasks, before `heartbeat` is set to `now`.
    pub(crate) fn note_longest(&self, now: u64) {
        let run = now.saturating_sub(self.counters.heartbeat.get());
        if run > self.counters.longest.get() {
            let name = self.running.now().map_or("", |task| task.name);
            self.note_run(name, run);
        }
    }

    /// Records how long the task called `name` took, if that is a new maximum.
    pub(crate) fn note_run(&self, name: &'static str, nanos: u64) {
        if nanos > self.counters.longest.get() {
            self.counters.longest.set(nanos);
            *lock(&self.longest_task) = Some(name);
        }
    }

    /// Reports tasks that kept the event loop for `nanos`: their number, and the name of the last.
    #[cold]
    pub(crate) fn report_slow(
        &self,
        event_loop: &str,
        now: u64,
        tasks: (u64, &'static str),
        nanos: u64,
    ) {
        let elapsed = Duration::from_nanos(nanos);
        trace::slow_task(&self.slow_tasks, now, event_loop, tasks, elapsed);
    }

    /// Counts a panic of a task or a listener, or a notification that fell back to another thread,
    /// when it is reported as unhandled. Ignores other errors.
    pub(crate) fn count_unhandled(&self, what: &Unhandled<'_>) {
        match what {
            Unhandled::TaskPanic { .. } => {
                self.counters.panics.fetch_add(1, Ordering::Relaxed);
            }
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

    /// Returns for how many nanoseconds the event loop was awake, up to now.
    pub(crate) fn busy_nanos(&self, clock: &Clock) -> u64 {
        let awake_since = self.counters.awake_since.get();
        let now = if awake_since == 0 {
            0
        } else {
            clock.nanos().saturating_sub(awake_since)
        };
        self.counters.busy.get() + now
    }

    /// Returns the number of tasks that were accepted and have not started. `in_lane` is the length
    /// of the lane, which includes slots that the event loop has reserved, and tasks that it has
    /// taken and not yet published. If the event loop is inside a task, the result is exact.
    pub(crate) fn pending(&self, in_lane: usize) -> usize {
        let started = self.running.started() + 1;
        let taken = match self.counters.published_at.get() {
            0 => 0,
            published_at => started.saturating_sub(published_at),
        };
        let not_waiting = taken.saturating_add(self.counters.spare.get());
        let not_waiting = usize::try_from(not_waiting).unwrap_or(usize::MAX);
        in_lane.saturating_sub(not_waiting)
    }

    /// Returns the current metrics; `in_lane` as for [`LoopCounters::pending`].
    pub(crate) fn metrics(&self, clock: &Clock, in_lane: usize) -> LoopMetrics {
        let counters = &self.counters;
        let now = clock.nanos();
        let since = counters.started_at.get();
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
            lateness_total: Duration::from_nanos(counters.lateness_sum.get()),
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

/// A snapshot of an event loop's metrics. It is taken without stopping the event loop, so the
/// values belong to nearly, not exactly, the same moment.
///
/// ```
/// use tidegate_loop::EventLoop;
///
/// let home = EventLoop::builder("home").build()?;
/// home.submit(|| ())?.wait()?;
/// let metrics = home.metrics();
/// assert!(metrics.tasks_run >= 1);
/// assert_eq!(metrics.tasks_pending, 0);
/// println!("{metrics}"); // one line for each subject
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LoopMetrics {
    /// Tasks started so far, including timers and the first polls of futures. A driver's task that
    /// has several steps counts once per step.
    pub tasks_run: u64,
    /// Tasks that were accepted and have not started.
    pub tasks_pending: usize,
    /// The high-water mark of waiting tasks. It is sampled only where this costs the producers
    /// nothing: after a sleep, after a turn that ran the maximum number of tasks, from the event
    /// loop's own queue, and from the number of tasks that a turn took from the lane. So it is a
    /// lower bound.
    pub high_water: u64,
    /// Tasks that were refused because the lane was full or closed.
    pub refused: u64,
    /// Panics of tasks, and of what else the event loop runs: sources, updates, the `Drop` of a
    /// closure. A panic that is the failure of a completion is not counted, if the completion still
    /// has a reader.
    pub panics: u64,
    /// Listeners that panicked.
    pub listener_panics: u64,
    /// Notifications that ran on another thread because this event loop had terminated.
    pub fell_back: u64,
    /// Scheduled tasks that wait for their deadline, as of the event loop's last turn. A task that
    /// is added during a sleep and is due after the end of that sleep does not wake the event loop;
    /// it is counted when the event loop wakes up.
    pub timers_pending: u64,
    /// Scheduled runs so far.
    pub timers_run: u64,
    /// The maximum lateness of a scheduled task.
    pub lateness_max: Duration,
    /// The mean lateness of scheduled tasks.
    pub lateness_mean: Duration,
    /// The sum of the lateness of all scheduled tasks.
    pub lateness_total: Duration,
    /// Spawned futures that have not ended.
    pub futures: u64,
    /// The fraction of time in which the event loop was awake, from 0 to 1.
    pub busy_ratio: f64,
    /// The time in which the event loop was awake.
    pub busy: Duration,
    /// Turns of the event loop.
    pub turns: u64,
    /// The number of times the event loop went to sleep.
    pub sleeps: u64,
    /// Wake-ups sent by other threads.
    pub wakeups: u64,
    /// The time since the current or last turn began, or since the last clock read between its
    /// tasks. It also grows while the event loop sleeps.
    pub heartbeat_age: Duration,
    /// With `EventLoopBuilder::time_tasks`: the duration of the longest task.
    ///
    /// Without it, the event loop reads the clock only now and then, after 4 to 64 tasks of one kind
    /// in one turn. This is then the longest time between two such readings, so it may be the sum of
    /// up to 64 tasks. Tasks of a turn that ends before a reading are not measured: a single slow
    /// task may be missing here. A [`Watchdog`](crate::Watchdog) finds it.
    pub longest: Duration,
    /// The name of the longest task. Without `EventLoopBuilder::time_tasks`, the name of the last
    /// task before the clock was read, which need not be the slow one. `None` if nothing was
    /// measured.
    pub longest_task: Option<&'static str>,
    /// The task that runs now.
    pub running: Option<RunningTask>,
}

/// One line for each subject.
impl fmt::Display for LoopMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "tasks      {} run, {} pending, {} pending at most, {} refused, {} panicked",
            self.tasks_run, self.tasks_pending, self.high_water, self.refused, self.panics,
        )?;
        writeln!(
            f,
            "listeners  {} panicked, {} ran elsewhere",
            self.listener_panics, self.fell_back,
        )?;
        writeln!(
            f,
            "timers     {} run, {} pending, late by {:?} on average, {:?} at most",
            self.timers_run, self.timers_pending, self.lateness_mean, self.lateness_max,
        )?;
        writeln!(f, "futures    {} pending", self.futures)?;
        let percent = self.busy_ratio * 100.0;
        writeln!(f, "busy       {percent:.1} % of the time, {:?}", self.busy)?;
        writeln!(
            f,
            "turns      {}, {} sleeps, {} wake-ups",
            self.turns, self.sleeps, self.wakeups,
        )?;
        writeln!(f, "heartbeat  {:?} ago", self.heartbeat_age)?;
        write!(f, "longest    {:?}", self.longest)?;
        if let Some(task) = self.longest_task {
            write!(f, ", task `{task}`")?;
        }
        match self.running {
            Some(task) => write!(f, "\nrunning    task `{}`", task.name),
            None => write!(f, "\nrunning    nothing"),
        }
    }
}

#[cfg(test)]
mod tests {
    //! The text of a snapshot.

    use super::*;

    fn metrics() -> LoopMetrics {
        LoopMetrics {
            tasks_run: 1_200,
            tasks_pending: 3,
            high_water: 64,
            refused: 2,
            panics: 1,
            listener_panics: 4,
            fell_back: 5,
            timers_pending: 6,
            timers_run: 70,
            lateness_max: Duration::from_millis(12),
            lateness_mean: Duration::from_micros(350),
            lateness_total: Duration::from_millis(25),
            futures: 8,
            busy_ratio: 0.1234,
            busy: Duration::from_millis(1_500),
            turns: 900,
            sleeps: 80,
            wakeups: 75,
            heartbeat_age: Duration::from_millis(40),
            longest: Duration::from_millis(9),
            longest_task: Some("report"),
            running: Some(RunningTask {
                sequence: 1_201,
                name: "parse",
            }),
        }
    }

    #[test]
    fn prints_one_aligned_line_for_each_subject() {
        let expected = "\
tasks      1200 run, 3 pending, 64 pending at most, 2 refused, 1 panicked
listeners  4 panicked, 5 ran elsewhere
timers     70 run, 6 pending, late by 350µs on average, 12ms at most
futures    8 pending
busy       12.3 % of the time, 1.5s
turns      900, 80 sleeps, 75 wake-ups
heartbeat  40ms ago
longest    9ms, task `report`
running    task `parse`";
        assert_eq!(metrics().to_string(), expected);
    }

    #[test]
    fn prints_that_nothing_runs() {
        let idle = LoopMetrics {
            longest: Duration::ZERO,
            longest_task: None,
            running: None,
            ..metrics()
        };
        let text = idle.to_string();
        assert!(
            text.ends_with("\nlongest    0ns\nrunning    nothing"),
            "{text}"
        );
    }
}
