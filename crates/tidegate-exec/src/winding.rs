//! How a loop ends: quiet period, hooks, close, what is left, report.
//!
//! Driven by the loop's own turns. Nothing is polled: the loop sleeps until the quiet period
//! would be over or the deadline comes, and a submission in between wakes it and starts the
//! period anew.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tidegate_sync::{Executor, Parker, ThreadBuilder, Unhandled, as_nanos, panic_message};

use crate::core::{Core, Turn};
use crate::driver::Driver;
use crate::lifecycle::{Lifecycle, Plan, Quiet, ShutdownError, ShutdownReport};
use crate::local;
use crate::schedule;
use crate::shared::{Shared, Terminated, lock};

/// How long after the deadline a loop may take to notice it before it counts as stuck.
const GRACE: Duration = Duration::from_millis(500);

/// The loop's side of its own end.
#[derive(Default)]
pub(crate) struct Winding {
    begun: Option<Begun>,
    over: bool,
}

struct Begun {
    /// Tasks that had been started when the end began.
    started: u64,
    /// The last moment at which something ran.
    last_work: u64,
    report: ShutdownReport,
}

impl Winding {
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// What comes after a turn of a loop that was asked to end; true when it is over.
    pub(crate) fn step<D: Driver>(
        &mut self,
        core: &mut Core<D>,
        shared: &Arc<Shared>,
        turn: Turn,
    ) -> bool {
        let closed = shared.state.get() >= Lifecycle::Shutdown;
        let now = shared.clock.nanos();
        let plan = lock(&shared.plan).unwrap_or(Plan {
            quiet: 0,
            deadline: now,
        });
        let begun = self.begun.get_or_insert_with(|| Begun {
            started: shared.running.started(),
            last_work: now,
            report: ShutdownReport::default(),
        });
        begun.report.cancelled += cancel_timers();
        if turn == Turn::Busy {
            begun.last_work = now;
        }
        if now < plan.deadline && !closed {
            if turn == Turn::Busy || !core.end().is_empty() || !shared.signals.is_empty() {
                return false;
            }
            if run_hooks(shared, &mut begun.report) {
                begun.last_work = shared.clock.nanos();
                return false;
            }
            let quiet_at = begun.last_work.saturating_add(plan.quiet);
            if now < quiet_at {
                core.sleep_until(shared, quiet_at.min(plan.deadline));
                return false;
            }
        }
        self.close(core, shared, plan);
        true
    }

    /// Closes the lanes and deals with what is left.
    fn close<D: Driver>(&mut self, core: &mut Core<D>, shared: &Arc<Shared>, plan: Plan) {
        shared.state.raise(Lifecycle::Shutdown);
        shared.lane.close();
        while shared.clock.nanos() < plan.deadline
            && (core.turn_again(shared) == Turn::Busy || !core.end().is_empty())
        {}
        let Some(begun) = &mut self.begun else { return };
        run_hooks(shared, &mut begun.report);
        let report = &mut begun.report;
        report.cancelled += cancel_timers();
        report.dropped += drop_futures();
        for signal in shared.signals.close() {
            let _ = catch_unwind(AssertUnwindSafe(|| signal.deliver()));
        }
        report.cancelled += cancel_timers();
        report.dropped += drop_futures();
        let own = local::with(|local| std::mem::take(&mut local.kept.tasks));
        local::give_back_spare();
        let left = core.end().drain();
        report.ran = shared.running.started() - begun.started;
        report.handed_back = shared.handed_back.clone();
        shared.handed_back.add(own.unwrap_or_default());
        shared.handed_back.add(left);
        self.over = true;
    }

    /// Leaves the report for [`announce`].
    pub(crate) fn finish(&mut self, shared: &Shared) {
        if let Some(begun) = self.begun.take() {
            *lock(&shared.last_report) = Some(begun.report);
        }
    }
}

/// Says that the loop is over. The last thing that its thread does.
pub(crate) fn announce(shared: &Shared) {
    let report = lock(&shared.last_report).take().unwrap_or_default();
    shared.terminate(Ok(report));
}

fn cancel_timers() -> u64 {
    let timers = local::with(|local| local.kept.timers.drain()).unwrap_or_default();
    for timer in &timers {
        schedule::expire(timer);
    }
    timers.len() as u64
}

fn drop_futures() -> u64 {
    let (sent, pinned) =
        local::with(|local| (local.kept.futures.drain(), local.pinned.drain())).unwrap_or_default();
    let count = (sent.len() + pinned.len()) as u64;
    let _ = catch_unwind(AssertUnwindSafe(|| drop(sent)));
    let _ = catch_unwind(AssertUnwindSafe(|| drop(pinned)));
    count
}

/// Runs shutdown hooks, oldest first, until none is left; hooks may add hooks. True if any ran.
fn run_hooks(shared: &Shared, report: &mut ShutdownReport) -> bool {
    let mut any = false;
    loop {
        let hook = {
            let mut hooks = lock(&shared.hooks);
            if hooks.is_empty() {
                return any;
            }
            hooks.remove(0)
        };
        any = true;
        report.hooks += 1;
        if let Err(panic) = catch_unwind(AssertUnwindSafe(hook.run)) {
            let message = panic_message(&*panic);
            shared.unhandled(&Unhandled::HookPanic { message });
        }
    }
}

impl Shared {
    /// Asks the loop to end as `quiet` says; a second call can only make it stricter.
    pub(crate) fn shut_down(&self, quiet: Quiet) -> Terminated {
        if quiet.period > quiet.timeout {
            return failed(ShutdownError::BadQuiet(quiet));
        }
        let asked = Plan {
            quiet: as_nanos(quiet.period),
            deadline: self.clock.deadline(quiet.timeout),
        };
        {
            let mut plan = lock(&self.plan);
            *plan = Some(plan.map_or(asked, |plan| plan.stricter(asked)));
        }
        if self.end_without_thread() {
            return self.terminated.clone();
        }
        if self.state.raise(Lifecycle::ShuttingDown) < Lifecycle::ShuttingDown {
            self.watch_end();
        } else if let Some(reaper) = &*lock(&self.reaper) {
            reaper.unpark();
        }
        // Whether it sleeps or not: it has to look at its state.
        let _ = self.bell.ring();
        self.wake();
        self.terminated.clone()
    }

    /// Ends a loop that has no thread and nothing to run, on the spot. True if it is over.
    fn end_without_thread(&self) -> bool {
        while self.state.needs_thread() {
            let idle =
                lock(&self.hooks).is_empty() && self.lane.is_empty() && self.signals.is_empty();
            let before = self.state.get();
            if !idle {
                if self.start().is_err() {
                    self.lane.close();
                    drop(self.signals.close());
                    self.terminate(Err(ShutdownError::NoThread));
                    return true;
                }
                return false;
            }
            if before <= Lifecycle::Suspended && self.state.advance(before, Lifecycle::Shutdown) {
                self.lane.close();
                drop(self.signals.close());
                // A submitter may have slipped in; its task is handed back, not lost.
                if let Some(core) = self.core.take() {
                    self.handed_back.add(core.dissolve());
                }
                self.terminate(Ok(ShutdownReport {
                    handed_back: self.handed_back.clone(),
                    ..ShutdownReport::default()
                }));
                return true;
            }
        }
        self.state.get() == Lifecycle::Terminated
    }

    /// Starts the thread that reports a loop which does not end in time.
    fn watch_end(&self) {
        let parker = Parker::new();
        *lock(&self.reaper) = Some(parker.clone());
        let shared = self.arc();
        let done = parker.clone();
        self.terminated.on_complete(move |_| done.unpark());
        // Without that thread a stuck loop is not reported; everything else works.
        let _ = ThreadBuilder::new("tidegate-end").spawn(move || reap(&shared, &parker));
    }
}

fn reap(shared: &Shared, parker: &Parker) {
    loop {
        if shared.terminated.is_done() {
            return;
        }
        let plan = *lock(&shared.plan);
        let deadline = plan
            .map_or(0, |plan| plan.deadline)
            .saturating_add(as_nanos(GRACE));
        let now = shared.clock.nanos();
        if now >= deadline {
            break;
        }
        shared.clock.park_until(parker, Some(deadline));
    }
    shared.state.raise(Lifecycle::Shutdown);
    shared.lane.close();
    let age = shared
        .clock
        .nanos()
        .saturating_sub(shared.counters.heartbeat.get());
    shared.report(Err(ShutdownError::Stuck {
        name: shared.name.clone(),
        task: shared.running.now().map_or("the driver", |task| task.name),
        age: Duration::from_nanos(age),
        behind: shared.lane.len(),
        handed_back: shared.handed_back.clone(),
    }));
}

/// A termination that has failed already.
pub(crate) fn failed(why: ShutdownError) -> Terminated {
    let failed = tidegate_promise::Completion::failed(why);
    failed
        .share()
        .unwrap_or_else(|_| unreachable!("a new completion was not taken"))
}
