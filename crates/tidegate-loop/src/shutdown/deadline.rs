//! What happens at the shutdown timeout: an event loop that does not end in time is reported as
//! stuck.
//!
//! The turns of the event loop notice the deadline and hand back the tasks that have not started
//! (`steps.rs`). A task that does not return prevents this, so a separate thread watches
//! (`end_watch.rs`). It reports what holds the event loop, closes the lane, and notifies the waiters
//! for tasks that cannot start. The tasks of a roaming loop that its strategy does not drive are
//! handed back by that thread.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::executor::ExecutorId;
use tidegate_core::internal::as_nanos;
use tidegate_pool::ShutdownError;

use super::end_watch::Ending;
use crate::state::lifecycle::Lifecycle;
use crate::state::metrics::{IN_DROPS, IN_SIGNALS};
use crate::state::shared::Shared;

/// How long after the deadline an event loop may take to notice it before it counts as stuck.
const GRACE: Duration = Duration::from_millis(500);

/// Has the shutdown of an event loop watched.
pub(crate) fn watch(shared: &Shared) {
    let (watch, id) = (Arc::clone(shared.plan.watch()), shared.id);
    watch.add(shared.arc());
    // After that: it may be over already.
    let terminated = shared.termination.completion();
    terminated.on_complete(move |_| watch.remove(id));
}

/// Makes the watch look again, since the deadline may be earlier now.
pub(crate) fn tighten(shared: &Shared) {
    shared.plan.watch().tighten(shared.late_at());
}

impl Ending for Shared {
    fn id(&self) -> ExecutorId {
        self.id
    }

    fn late_at(&self) -> u64 {
        if self.termination.completion().is_done() {
            return 0;
        }
        let deadline = self.plan.get().map_or(0, |plan| plan.deadline);
        deadline.saturating_add(as_nanos(GRACE))
    }

    fn report_late(&self) {
        if !self.termination.completion().is_done() {
            report_late(self);
        }
    }
}

fn report_late(shared: &Shared) {
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
