//! The steps of a shutdown: quiet period, hooks, close, leftovers, report.
//!
//! The turns of the event loop run them. Nothing is polled: the event loop sleeps until the quiet
//! period would end or the deadline passes. A submission in between wakes it and restarts the quiet
//! period; I/O alone does not. The hooks run after it, and after the tasks that other threads still
//! have.

use std::mem;
use std::sync::Arc;

use tidegate_core::internal::contain;
use tidegate_pool::{HandedBack, ShutdownError};

use super::deadline::stuck;
use super::plan::Plan;
use super::progress::{Progress, ShutdownStart};
use crate::core::driver::Driver;
use crate::core::loop_core::{Core, Turn};
use crate::schedule::{coarse_timer, scheduled_task};
use crate::state::lifecycle::Lifecycle;
use crate::state::metrics::{IN_DROPS, IN_SIGNALS};
use crate::state::shared::{Shared, drop_contained};
use crate::thread::local;

impl<D: Driver> Core<D> {
    /// Runs the shutdown steps that follow a turn. Returns `true` if the event loop has ended.
    pub(crate) fn wind_down(&mut self, shared: &Arc<Shared>, turn: Turn) -> bool {
        let mut progress = mem::take(&mut self.progress);
        let done = step(&mut progress, self, shared, turn);
        self.progress = progress;
        done
    }

    /// Ends the event loop at once: it cannot run another turn. `why` gets the tasks that were
    /// left.
    pub(crate) fn give_up(
        &mut self,
        shared: &Arc<Shared>,
        why: &dyn Fn(HandedBack) -> ShutdownError,
    ) {
        let mut progress = mem::take(&mut self.progress);
        if !progress.is_over() {
            begin(&mut progress, shared, shared.clock.nanos());
            let past = Plan {
                quiet: 0,
                deadline: 0,
                started: 0,
            };
            close(&mut progress, self, shared, past);
            progress.failed = Some(why(shared.termination.handed_back()));
        }
        self.progress = progress;
    }
}

fn begin<'a>(progress: &'a mut Progress, shared: &Shared, now: u64) -> &'a mut ShutdownStart {
    progress.begin(now, || {
        let plan = shared.plan.get();
        plan.map_or_else(|| shared.meter.running.started(), |plan| plan.started)
    })
}

fn step<D: Driver>(
    progress: &mut Progress,
    core: &mut Core<D>,
    shared: &Arc<Shared>,
    turn: Turn,
) -> bool {
    let closed = shared.state.get() >= Lifecycle::Shutdown;
    let now = shared.clock.nanos();
    let plan = shared.plan.get().unwrap_or(Plan {
        quiet: 0,
        deadline: now,
        started: shared.meter.running.started(),
    });
    let begun = begin(progress, shared, now);
    begun.report.cancelled += cancel_timers(shared);
    if turn == Turn::Busy {
        begun.last_work = now;
    }
    if now < plan.deadline && !closed {
        if turn != Turn::Idle || core.has_claims() || !shared.mailbox.signals.is_empty() {
            return false;
        }
        let quiet_at = begun.last_work.saturating_add(plan.quiet);
        // The hooks run once the period is over. What they submit does not begin another one.
        if now < quiet_at && begun.report.hooks == 0 {
            core.sleep_until(shared, quiet_at.min(plan.deadline));
            return false;
        }
        if shared.handed_out.await_last() {
            core.sleep_until(shared, plan.deadline);
            return false;
        }
        if run_hooks(shared, begun, plan.deadline) {
            return false;
        }
    }
    if core.is_out(shared) {
        if now < plan.deadline {
            core.sleep_until(shared, plan.deadline);
            return false;
        }
        progress.failed = Some(stuck(shared, core.outstanding()));
    }
    close(progress, core, shared, plan);
    true
}

/// Closes the lanes, and runs or hands back the work that is left.
fn close<D: Driver>(progress: &mut Progress, core: &mut Core<D>, shared: &Arc<Shared>, plan: Plan) {
    shared.state.raise(Lifecycle::Shutdown);
    shared.mailbox.lane.close();
    while shared.clock.nanos() < plan.deadline
        && (core.turn(shared) != Turn::Idle || core.has_claims())
    {}
    core.close_driver(shared);
    let Some(begun) = &mut progress.begun else {
        return;
    };
    run_hooks(shared, begun, plan.deadline);
    let report = &mut begun.report;
    report.cancelled += cancel_timers(shared);
    report.dropped += drop_futures(shared);
    shared.meter.counters.activity.set(IN_SIGNALS);
    for signal in shared.mailbox.signals.close() {
        let _ = contain(|| signal.deliver());
    }
    report.cancelled += cancel_timers(shared);
    report.dropped += drop_futures(shared);
    let own = local::close();
    let left = core.task_receiver.drain();
    report.ran = shared.meter.running.started() - begun.started;
    report.handed_back = shared.termination.handed_back();
    // In one step: a caller that takes tasks takes all of them, and marks all of them as taken.
    report.handed_back.add(own.into_iter().chain(left));
    shared.hooks.discard();
    progress.over = true;
}

/// Runs the pending shutdown hooks. Returns `true` if any ran.
fn run_hooks(shared: &Shared, begun: &mut ShutdownStart, deadline: u64) -> bool {
    let hooks = &shared.hooks;
    let ran = hooks.run(&shared.clock, deadline, |panic| shared.unhandled(panic));
    begun.report.hooks += ran;
    ran > 0
}

fn cancel_timers(shared: &Shared) -> u64 {
    shared.meter.counters.activity.set(IN_DROPS);
    let (timers, timeouts) = local::with(|local| {
        (
            local.loop_state.timers.drain(),
            local.loop_state.coarse.drain(),
        )
    })
    .unwrap_or_default();
    for timer in &timers {
        scheduled_task::expire(shared, timer);
    }
    for timeout in &timeouts {
        coarse_timer::end(shared, timeout);
    }
    shared.meter.counters.activity.set(0);
    (timers.len() + timeouts.len()) as u64
}

fn drop_futures(shared: &Shared) -> u64 {
    let (sent, pinned) =
        local::with(|local| (local.loop_state.futures.drain(), local.pinned.drain()))
            .unwrap_or_default();
    let count = (sent.len() + pinned.len()) as u64;
    shared.meter.counters.activity.set(IN_DROPS);
    for future in sent {
        drop_contained(shared, future);
    }
    for future in pinned {
        drop_contained(shared, future);
    }
    shared.meter.counters.activity.set(0);
    count
}
