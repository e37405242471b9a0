//! What happens at the shutdown timeout: a loop that does not end in time is reported as stuck.
//!
//! A loop's own turns notice the deadline and hand back what has not started (`steps.rs`). A task that
//! does not return keeps the loop from that, so a thread of its own watches each end: it reports what
//! holds the loop, closes the lane, and lets the waiters for tasks that cannot begin know.

use std::borrow::Cow;
use std::time::Duration;

use tidegate_core::{Parker, ThreadBuilder, as_nanos};
use tidegate_pool::ShutdownError;

use crate::state::lifecycle::Lifecycle;
use crate::state::metrics::{IN_DROPS, IN_SIGNALS};
use crate::state::shared::Shared;

/// How long after the deadline a loop may take to notice it before it counts as stuck.
const GRACE: Duration = Duration::from_millis(500);

/// Starts the thread that reports a loop which does not end in time.
pub(crate) fn watch(shared: &Shared) {
    let parker = Parker::new();
    shared.plan.set_watcher(&parker);
    let done = parker.clone();
    let terminated = shared.termination.completion();
    terminated.on_complete(move |_| done.unpark());
    let shared = shared.arc();
    // Without that thread a stuck loop is not reported; everything else works.
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
    shared.termination.report(Err(stuck(shared, Vec::new())));
    shared.termination.give_up_tasks(shared.id);
}

/// The error of a loop that passed its deadline because something holds it: a task, a hook, or `cut`,
/// what is still with other threads.
pub(crate) fn stuck(shared: &Shared, cut: Vec<String>) -> ShutdownError {
    let now = shared.clock.nanos();
    let age = now.saturating_sub(shared.meter.counters.heartbeat.get());
    let task = match cut.is_empty() {
        true => shared
            .out
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

/// What the loop's thread is in.
fn held_by(shared: &Shared) -> Cow<'static, str> {
    if let Some(name) = shared.hooks.running() {
        return Cow::Owned(format!("shutdown hook {name}"));
    }
    let running = shared.meter.running.now().map(|task| task.name);
    let held_by = running.unwrap_or_else(|| match shared.meter.counters.place.get() {
        _ if shared.meter.counters.since.get() == 0 => "the start of its thread",
        IN_SIGNALS => "a listener or a future",
        IN_DROPS => "the drop of a timer or a future",
        _ => "the driver",
    });
    Cow::Borrowed(held_by)
}
