//! What happens at the shutdown timeout: an event loop that does not end in time is reported as
//! stuck.
//!
//! The turns of the event loop notice the deadline and hand back the tasks that have not started
//! (`steps.rs`). A task that does not return prevents this, so a separate thread watches each
//! shutdown. It reports what holds the event loop, closes the lane, and notifies the waiters for
//! tasks that cannot start. The tasks of a roaming loop that its strategy does not drive are handed
//! back by that thread.

use std::borrow::Cow;
use std::time::Duration;

use tidegate_core::internal::as_nanos;
use tidegate_core::{Parker, ThreadBuilder};
use tidegate_pool::ShutdownError;

use crate::state::lifecycle::Lifecycle;
use crate::state::metrics::{IN_DROPS, IN_SIGNALS};
use crate::state::shared::Shared;

/// How long after the deadline an event loop may take to notice it before it counts as stuck.
const GRACE: Duration = Duration::from_millis(500);

/// Starts the thread that reports an event loop which does not end in time.
pub(crate) fn watch(shared: &Shared) {
    let parker = Parker::new();
    shared.plan.set_watcher(&parker);
    let done = parker.clone();
    let terminated = shared.termination.completion();
    terminated.on_complete(move |_| done.unpark());
    let shared = shared.arc();
    // If that thread cannot be started, a stuck event loop is not reported; everything else works.
    let _ = ThreadBuilder::new("tidegate-end").spawn(move || report_if_late(&shared, &parker));
}

fn report_if_late(shared: &Shared, parker: &Parker) {
    let terminated = shared.termination.completion();
    loop {
        if terminated.is_done() {
            return;
        }
        let plan = shared.plan.get();
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
    shared.mailbox.lane.close();
    let Some(why) = not_driven(shared) else {
        shared.termination.report(Err(stuck(shared, Vec::new())));
        return shared.termination.give_up_tasks(shared.id);
    };
    // A loop that its strategy has left is handed back here. If the strategy asks after all, it finds
    // that the loop has ended.
    match shared.core.take() {
        Some(core) => {
            drop(shared.mailbox.signals.close());
            shared.termination.handed_back().add(core.dissolve());
            shared.terminate(Err(why));
        }
        None => {
            shared.termination.report(Err(why));
            shared.termination.give_up_tasks(shared.id);
        }
    }
}

/// Returns the error of a roaming loop that is in no task and in no turn: its strategy does not ask
/// for work.
fn not_driven(shared: &Shared) -> Option<ShutdownError> {
    let strategy = shared.thread.strategy_name()?;
    if !shared.is_left_by_strategy() {
        return None;
    }
    Some(ShutdownError::BadStrategy {
        name: shared.name.clone(),
        strategy,
        fault: match shared.meter.counters.started_at.get() {
            0 => "never asked the loop for a task; it has to after each `dispatch`",
            _ => "stopped asking the loop for tasks; it has to after each `dispatch`",
        },
        handed_back: shared.termination.handed_back(),
    })
}

/// Returns the error of an event loop that passed its shutdown deadline because a task, a hook, or
/// `cut` (work that other threads still have) is not done.
pub(crate) fn stuck(shared: &Shared, cut: Vec<String>) -> ShutdownError {
    let now = shared.clock.nanos();
    let age = now.saturating_sub(shared.meter.counters.heartbeat.get());
    let task = match cut.is_empty() {
        true => shared
            .handed_out
            .any()
            .map_or_else(|| held_by(shared), Cow::Borrowed),
        false => Cow::Borrowed("a handler"),
    };
    ShutdownError::Stuck {
        name: shared.name.clone(),
        task,
        age: Duration::from_nanos(age),
        behind: shared.pending(),
        cut,
        handed_back: shared.termination.handed_back(),
    }
}

/// Returns the name of what the event loop's thread is running.
pub(crate) fn held_by(shared: &Shared) -> Cow<'static, str> {
    if let Some(name) = shared.hooks.running() {
        return Cow::Owned(format!("shutdown hook {name}"));
    }
    let running = shared.meter.running.now().map(|task| task.name);
    let held_by = running.unwrap_or_else(|| match shared.meter.counters.activity.get() {
        _ if shared.meter.counters.started_at.get() == 0 => "the start of its thread",
        IN_SIGNALS => "a listener or a future",
        IN_DROPS => "the drop of a timer or a future",
        _ => "the driver",
    });
    Cow::Borrowed(held_by)
}
