//! The worker thread of a timer: drains the lane, turns the wheel, fires due timeouts, sleeps.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_core::Task;
use tidegate_core::internal::ClockMember;

use crate::raw::StillPending;

use super::shared::{Cell, Shared};
use super::task::TimerTask;

/// The maximum number of due timeouts that leave the wheel before the lane is drained again.
const BATCH: usize = 256;

pub(super) fn run(shared: &Shared, mut member: ClockMember) {
    member.enter();
    let _end = End(shared);
    let mut due = Vec::with_capacity(BATCH);
    while !shared.lane.is_closed() {
        let now = shared.clock.nanos();
        let next = turn(shared, now, &mut due);
        if due.is_empty() {
            sleep(shared, next);
        }
        for cell in due.drain(..) {
            fire(shared, cell, now);
        }
    }
}

/// Records the end of the worker on drop, also if the worker unwinds.
struct End<'a>(&'a Shared);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Drains the lane, moves up to `BATCH` due timeouts from the wheel into `due`, and returns the
/// next deadline of the wheel. The worker sleeps until then if nothing is due.
fn turn(shared: &Shared, now: u64, due: &mut Vec<Arc<Cell>>) -> Option<u64> {
    let mut core = shared.core();
    shared.absorb(&mut core);
    while due.len() < BATCH
        && let Some(expired) = core.wheel.pop_due(now)
    {
        expired.value.key().clear();
        due.push(expired.value);
    }
    core.wheel.next_deadline()
}

fn sleep(shared: &Shared, until: Option<u64>) {
    shared.bell.arm(until.unwrap_or(u64::MAX));
    if shared.lane.is_empty() && !shared.lane.is_closed() {
        shared.clock.park_until(&shared.parker, until);
        shared.counts.wakeups.fetch_add(1, Ordering::Relaxed);
    }
    shared.bell.disarm();
}

fn fire(shared: &Shared, cell: Arc<Cell>, now: u64) {
    match cell.expire(now) {
        Ok(task) => {
            shared.pending.fetch_sub(1, Ordering::Relaxed);
            shared.counts.fired.fetch_add(1, Ordering::Relaxed);
            drop(cell);
            dispatch(shared, task);
        }
        // The timeout was reset to a later deadline. A reset to a later deadline does not move the
        // entry in the wheel, so the entry was due at its old deadline. Or the timeout was reset
        // after it had left the wheel; a cancelling thread that drained the lane may then have put
        // it back.
        Err(StillPending::Until(deadline)) => {
            let mut core = shared.core();
            if shared.lane.is_closed() {
                core.unfired.push(cell);
            } else if cell.key().get().is_none() {
                core.place(deadline, cell);
            }
        }
        Err(StillPending::No(_)) => {}
    }
}

/// Runs a task on its executor. A task that its executor rejects runs here, because the timer
/// accepted it. The `on_cancel` hook is dropped first, because a timeout that fires is not
/// cancelled.
fn dispatch(shared: &Shared, mut task: TimerTask) {
    let own = task.extras.as_mut().and_then(|it| it.executor.take());
    let task = shared.strip_extras(task);
    let Some(executor) = own.as_ref().or(shared.executor.as_ref()) else {
        return run_here(shared, task);
    };
    let mut refused = None;
    shared.contain(task.name(), || refused = executor.execute(task).err());
    if let Some(refused) = refused {
        shared.counts.fell_back.fetch_add(1, Ordering::Relaxed);
        run_here(shared, refused.into_inner());
    }
    shared.contain("drop", || drop(own));
}

fn run_here(shared: &Shared, task: Task) {
    let begin = shared.clock.nanos();
    shared.contain(task.name(), || task.run());
    let took = shared.clock.nanos().saturating_sub(begin);
    shared.counts.longest.fetch_max(took, Ordering::Relaxed);
}
