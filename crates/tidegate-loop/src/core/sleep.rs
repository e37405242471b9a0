//! How an idle event loop sleeps: it spins for a while, arms its doorbell, and waits on its driver.

use tidegate_core::internal::prim::spin_loop;

use super::driver::Driver;
use super::loop_core::Core;
use crate::state::shared::Shared;
use crate::thread::local;

/// The event loop does not spin if a timer is due within this many nanoseconds, so that it is not
/// late.
const SOON: u64 = 100_000;

impl<D: Driver> Core<D> {
    /// Spins for a while, then sleeps until `deadline` or until woken.
    pub(super) fn sleep(&mut self, shared: &Shared, deadline: Option<u64>) {
        local::give_back_spare();
        self.task_receiver.publish();
        if !std::mem::take(&mut self.already_spun) && self.spin(shared) {
            return;
        }
        shared.mailbox.bell.arm(deadline.unwrap_or(u64::MAX));
        if self.has_work(shared) || shared.state.get() != self.seen_state {
            shared.mailbox.bell.disarm();
            // A producer may have claimed a slot and not written the task yet: gives it a moment.
            spin_loop();
            return;
        }
        let counters = &shared.meter.counters;
        counters.sleeps.add(1);
        let now = shared.clock.nanos();
        counters.awake_since.set(0);
        counters.busy.add(now.saturating_sub(self.awake_since));
        if let Some(thread) = &self.thread {
            thread.set_waiting(true);
        }
        self.driver.wait(&shared.clock, deadline);
        self.turns_since_poll = 0;
        shared.mailbox.bell.disarm();
        self.measure_queue = true;
        if let Some(thread) = &self.thread {
            thread.set_waiting(false);
        }
        self.awake_since = shared.clock.nanos();
        self.woke = Some(self.awake_since);
        shared
            .meter
            .counters
            .awake_since
            .set(self.awake_since.max(1));
    }

    /// Spins for a while, unless a timer is due soon. Returns `true` if work arrived.
    pub(super) fn spin(&mut self, shared: &Shared) -> bool {
        if !D::SPINS || !shared.settings.spin {
            return false;
        }
        let due = local::with(|local| local.loop_state.next_deadline()).flatten();
        if due.is_some_and(|due| due < self.last_work.saturating_add(SOON)) {
            return false;
        }
        let end = &mut self.task_receiver;
        let mut ready = || end.is_ready() || !shared.mailbox.signals.is_empty();
        self.idle_spin.spin(&mut ready)
    }

    /// Sleeps until `deadline` or until woken, unless the event loop is driven by hand.
    pub(crate) fn sleep_until(&mut self, shared: &Shared, deadline: u64) {
        if !self.manual {
            self.sleep(shared, Some(deadline));
        }
    }
}
