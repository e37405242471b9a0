//! The worker thread of a timer: turns the wheel, fires due timeouts, sleeps.

use tidegate_core::Task;
use tidegate_core::internal::ClockMember;

use super::shared::{Outcome, Shared};
use super::task::TimerTask;

pub(super) fn run(shared: &Shared, mut member: ClockMember) {
    member.enter();
    let _end = End(shared);
    loop {
        let now = shared.clock.nanos();
        let mut core = shared.core();
        if core.is_stopped {
            return;
        }
        let Some(due) = core.wheel.pop_due(now) else {
            let until = core.wheel.next_deadline();
            core.asleep_until = until.unwrap_or(u64::MAX);
            drop(core);
            shared.clock.park_until(&shared.parker, until);
            let mut core = shared.core();
            core.asleep_until = 0;
            core.counts.wakeups += 1;
            continue;
        };
        due.value.outcome.set(Outcome::EXPIRED);
        core.counts.fired += 1;
        drop(core);
        dispatch(shared, due.value.task);
    }
}

/// Records the end of the worker on drop, also if the worker unwinds.
struct End<'a>(&'a Shared);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.end();
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
        shared.core().counts.fell_back += 1;
        run_here(shared, refused.into_inner());
    }
    shared.contain("drop", || drop(own));
}

fn run_here(shared: &Shared, task: Task) {
    let begin = shared.clock.now();
    shared.contain(task.name(), || task.run());
    let took = shared.clock.now().saturating_duration_since(begin);
    let counts = &mut shared.core().counts;
    counts.longest_task = counts.longest_task.max(took);
}
