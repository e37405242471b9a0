//! The tree of one event loop.

use std::borrow::Cow;
use std::time::Duration;

use tidegate_core::Dump;
use tidegate_core::internal::contain;
use tidegate_core::thread::ThreadState;
use tidegate_pool::strategy::Strategy;

use crate::shutdown::deadline::held_by;
use crate::state::lifecycle::Lifecycle;
use crate::state::metrics::LoopMetrics;
use crate::state::shared::Shared;
use crate::thread::local;

/// What only the thread of an event loop can read.
struct OwnPart {
    queued: usize,
    /// The names of the first tasks of the event loop's own queue.
    tasks: Vec<&'static str>,
    next_timer: Option<u64>,
}

impl Shared {
    /// Returns the state of the event loop. `driver` is the driver's part if the event loop's
    /// thread has made it. Otherwise the tree shows what the driver publishes. Waits neither for
    /// the event loop nor for a lock that is held while user code runs.
    pub(crate) fn describe(&self, driver: Option<Dump>) -> Dump {
        let in_lane = self.mailbox.lane.len();
        let metrics = self.meter.metrics(&self.clock, in_lane);
        let own = self.own_part();
        let dump = Dump::new("loop", &self.name).fact("state", lifecycle(self.state.get()));
        let dump = self.with_thread(dump);
        let dump = self.with_activity(dump, &metrics);
        let dump = dump
            .fact("queued", metrics.tasks_pending)
            .fact("queue_limit", self.mailbox.lane.bound())
            .fact("timers", metrics.timers_pending)
            .fact("futures", metrics.futures)
            .fact("tasks_run", metrics.tasks_run)
            .fact("refused", metrics.refused)
            .fact("panics", metrics.panics)
            .fact("busy_ratio", metrics.busy_ratio)
            .fact("stalled", self.is_stalled())
            .fact("unhealthy", self.health.is_unhealthy(&self.clock));
        let dump = match own {
            Some(own) => self.with_own(dump, &own),
            None => dump,
        };
        let dump = dump.child_if(self.thread.strategy().as_deref().map(strategy));
        let published = || {
            let view = self.driver.as_ref()?;
            contain(|| view.dump()).ok()
        };
        dump.child_if(driver.or_else(published))
    }

    fn with_thread(&self, dump: Dump) -> Dump {
        if let Some(watch) = self.thread.watch() {
            let info = watch.info();
            let state = match info.state() {
                ThreadState::Starting => "starting",
                ThreadState::Running => "running",
                ThreadState::Waiting => "waiting",
                ThreadState::Ended => "ended",
            };
            return dump.fact("thread", info.name()).fact("thread_state", state);
        }
        let (out, last) = self.handed_out.now();
        if out == 0 {
            return dump;
        }
        dump.fact("tasks_elsewhere", out).fact("last_of_them", last)
    }

    /// Adds what the event loop runs, and for how long at most: the clock was last read before it
    /// began.
    fn with_activity(&self, dump: Dump, metrics: &LoopMetrics) -> Dump {
        let runs = match metrics.running {
            Some(task) => Cow::Borrowed(task.name),
            None if !self.is_awake() => return dump.fact("runs", "nothing"),
            None => held_by(self),
        };
        dump.fact("runs", &*runs)
            .fact("for_at_most", metrics.heartbeat_age)
    }

    /// Returns `true` if a thread drives the event loop and does not sleep.
    fn is_awake(&self) -> bool {
        let state = self.state.get();
        let lives = state > Lifecycle::Suspended && state < Lifecycle::Terminated;
        lives && self.meter.counters.awake_since.get() != 0
    }

    fn own_part(&self) -> Option<OwnPart> {
        let own = local::with(|local| {
            if local.shared.id != self.id {
                return None;
            }
            let tasks = &local.loop_state.tasks;
            let names = tasks.iter().take(Dump::MAX_CHILDREN);
            Some(OwnPart {
                queued: tasks.len(),
                tasks: names.map(tidegate_core::Task::name).collect(),
                next_timer: local.loop_state.next_deadline(),
            })
        });
        own.flatten()
    }

    fn with_own(&self, dump: Dump, own: &OwnPart) -> Dump {
        let now = self.clock.nanos();
        let next = own.next_timer.map(|at| at.saturating_sub(now));
        let dump = dump.fact_if("next_timer_in", next.map(Duration::from_nanos));
        if own.queued == 0 {
            return dump;
        }
        let tasks = own.tasks.iter().map(|name| Dump::new("task", name));
        dump.list("own_tasks", own.queued, tasks)
    }

    /// Returns a sentence about what keeps the event loop from answering.
    pub(crate) fn why_silent(&self, waited: Duration) -> String {
        let age = self.clock.nanos();
        let age = age.saturating_sub(self.meter.counters.heartbeat.get());
        let age = Duration::from_nanos(age);
        let running = self
            .meter
            .running
            .now()
            .map(|task| Cow::Borrowed(task.name));
        let runs = running.unwrap_or_else(|| held_by(self));
        format!("the loop did not answer within {waited:?}: it runs {runs} for up to {age:.1?}")
    }
}

/// Returns the dump of a strategy, which may be the user's own.
fn strategy(strategy: &dyn Strategy) -> Dump {
    contain(|| strategy.dump()).unwrap_or_else(|panic| {
        let message = panic.message().to_owned();
        Dump::new("strategy", "").fact("panicked", message)
    })
}

fn lifecycle(state: Lifecycle) -> &'static str {
    match state {
        Lifecycle::NotStarted => "not started",
        Lifecycle::Suspended => "suspended",
        Lifecycle::Suspending => "suspending",
        Lifecycle::Started => "started",
        Lifecycle::ShuttingDown => "shutting down",
        Lifecycle::Shutdown => "shut down",
        Lifecycle::Terminated => "terminated",
    }
}
