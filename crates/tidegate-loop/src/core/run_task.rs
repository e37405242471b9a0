//! Running one task, measuring its time, and catching its panic.

use tidegate_core::internal::contain;
use tidegate_core::{CaughtPanic, Task, Unhandled};

use crate::state::metrics::SLOW;
use crate::state::shared::Shared;

/// Runs one task and catches its panic.
#[inline(always)]
pub(crate) fn run_task(shared: &Shared, task: Task) {
    shared.meter.running.begin(&task);
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
    let now = shared.clock.nanos();
    let nanos = now.saturating_sub(before);
    shared.meter.note_run(name, nanos);
    if nanos >= SLOW {
        shared
            .meter
            .report_slow(&shared.name, now, (1, name), nanos);
    }
}

#[cold]
pub(crate) fn report_panic(shared: &Shared, task: &str, panic: CaughtPanic) {
    let running = || shared.meter.running.now().map(|running| running.name);
    let task = if task.is_empty() {
        let name = shared.meter.running.panicked().or_else(running);
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
