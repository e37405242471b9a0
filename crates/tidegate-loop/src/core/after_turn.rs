//! What follows a turn: another turn, a sleep, the shutdown, or the return of the thread.

use std::sync::Arc;

use super::driver::Driver;
use super::loop_core::{Core, Turn};
use crate::state::lifecycle::Lifecycle;
use crate::state::shared::Shared;
use crate::thread::local;

impl<D: Driver> Core<D> {
    /// Does what the life cycle requires after `turn`. Returns `true` if the thread is done.
    pub(super) fn after_turn(&mut self, shared: &Arc<Shared>, turn: Turn) -> bool {
        let state = shared.state.get();
        self.seen_state = state;
        if state >= Lifecycle::ShuttingDown {
            return self.wind_down(shared, turn);
        }
        if turn != Turn::Idle {
            let more = self.has_more(shared);
            self.already_spun = !more && !self.spin(shared);
            if D::SPINS || more {
                return false;
            }
        }
        if self.may_leave(shared, state) {
            return true;
        }
        let deadline = local::with(|local| local.loop_state.next_deadline()).flatten();
        let deadline = self.idle_deadline(shared, deadline);
        self.sleep(shared, deadline);
        false
    }

    /// Returns `true` if the next turn would find work. Does not read the cache line for which the
    /// producers compete, so work that only shows there is missed.
    fn has_more(&mut self, shared: &Shared) -> bool {
        let own = local::with(|local| !local.loop_state.tasks.is_empty());
        own == Some(true) || self.task_receiver.is_ready() || !shared.mailbox.signals.is_empty()
    }

    /// Returns the time at which an idle event loop has to run again: its `deadline`, or the time
    /// at which it may give its thread back.
    fn idle_deadline(&self, shared: &Shared, deadline: Option<u64>) -> Option<u64> {
        match shared.settings.idle_stop {
            0 => deadline,
            idle => {
                let leave = self.last_work.saturating_add(idle);
                // After that time only a timer or a future keeps the event loop; the next work
                // moves the time forward.
                let leave = Some(leave).filter(|&leave| leave > shared.clock.nanos());
                leave.into_iter().chain(deadline).min()
            }
        }
    }

    /// Returns `true` if the thread can be given back: the event loop was asked to, or has been
    /// idle for long enough, and no work is left.
    fn may_leave(&mut self, shared: &Shared, state: Lifecycle) -> bool {
        let idle = shared.settings.idle_stop;
        let requested = state == Lifecycle::Suspending;
        let bored = idle > 0 && shared.clock.nanos() >= self.last_work.saturating_add(idle);
        if self.has_root || (!requested && !bored) {
            return false;
        }
        let free = local::with(|local| {
            let timers = local.loop_state.timers_len() as u64;
            shared.meter.counters.timers.set(timers);
            local.loop_state.is_idle() && local.pinned.is_empty()
        });
        if free != Some(true) || !self.driver.is_idle() || self.has_work(shared) {
            return false;
        }
        local::give_back_spare();
        self.task_receiver.publish();
        true
    }
}
