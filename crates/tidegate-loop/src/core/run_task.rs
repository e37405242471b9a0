//! Running one task: the one place where its panic is caught, and what is noted of its time.

use tidegate_core::prim::lock;
use tidegate_core::{CaughtPanic, Executor, Task, Unhandled, contain};

use crate::state::shared::Shared;

/// Runs one task; the one place where its panic is caught.
#[inline(always)]
pub(crate) fn run_task(shared: &Shared, task: Task) {
    shared.running.begin(&task);
    if shared.settings.time_tasks {
        return run_timed(shared, task);
    }
    if let Err(panic) = contain(|| task.run()) {
        report_panic(shared, "", panic);
    }
}

fn run_timed(shared: &Shared, task: Task) {
    let name = task.name();
    let before = shared.clock.nanos();
    if let Err(panic) = contain(|| task.run()) {
        report_panic(shared, name, panic);
    }
    note_run(shared, name, shared.clock.nanos().saturating_sub(before));
}

pub(crate) fn note_lateness(shared: &Shared, late: u64) {
    let counters = &shared.counters;
    counters.timers_run.add(1);
    counters.lateness_sum.add(late);
    counters.lateness_max.raise_to(late);
}

pub(crate) fn note_longest(shared: &Shared, now: u64) {
    let run = now.saturating_sub(shared.counters.heartbeat.get());
    if run > shared.counters.longest.get() {
        let name = shared.running.now().map_or("", |task| task.name);
        note_run(shared, name, run);
    }
}

fn note_run(shared: &Shared, name: &'static str, nanos: u64) {
    if nanos > shared.counters.longest.get() {
        shared.counters.longest.set(nanos);
        *lock(&shared.longest_task) = Some(name);
    }
}

#[cold]
pub(crate) fn report_panic(shared: &Shared, task: &str, panic: CaughtPanic) {
    shared.counters.panics.add(1);
    let running = || shared.running.now().map(|running| running.name);
    let task = if task.is_empty() {
        let name = shared.running.panicked().or_else(running);
        name.unwrap_or("a task")
    } else {
        task
    };
    shared.unhandled(&Unhandled::TaskPanic {
        task,
        message: panic.message(),
    });
    drop(panic);
}
