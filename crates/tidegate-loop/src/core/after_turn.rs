//! What follows a turn: another one, sleep, the end of the loop, or the end of its thread.

use std::sync::Arc;

use super::driver::Driver;
use super::loop_core::{Core, Turn};
use crate::state::lifecycle::Lifecycle;
use crate::state::shared::Shared;
use crate::thread::local;

impl<D: Driver> Core<D> {
    /// Does what the loop's life asks for after `turn`; true when the thread is done.
    pub(super) fn after_turn(&mut self, shared: &Arc<Shared>, turn: Turn) -> bool {
        let state = shared.state.get();
        self.seen = state;
        if state >= Lifecycle::ShuttingDown {
            return self.wind_down(shared, turn);
        }
        if turn == Turn::Busy {
            let more = self.has_more(shared);
            self.looked = !more && !self.look_on(shared);
            if D::LOOKS_ON || more {
                return false;
            }
        }
        if self.may_leave(shared, state) {
            return true;
        }
        let deadline = local::with(|local| local.kept.next_deadline()).flatten();
        let deadline = self.idle_deadline(shared, deadline);
        self.sleep(shared, deadline);
        false
    }

    /// Whether the next turn would find something, as far as that shows without a look at the
    /// producers' line.
    fn has_more(&mut self, shared: &Shared) -> bool {
        let own = local::with(|local| !local.kept.tasks.is_empty());
        own == Some(true) || self.end.is_ready() || !shared.mailbox.signals.is_empty()
    }

    /// When an idle loop that gives its thread back has to look again.
    fn idle_deadline(&self, shared: &Shared, deadline: Option<u64>) -> Option<u64> {
        match shared.settings.idle_stop {
            0 => deadline,
            idle => {
                let leave = self.last_work.saturating_add(idle);
                // Past it the loop stays because of a timer or a future: work then moves it on.
                let leave = Some(leave).filter(|&leave| leave > shared.clock.nanos());
                leave.into_iter().chain(deadline).min()
            }
        }
    }

    /// Gives the thread back if the loop was asked to, or has been idle for long, and nothing
    /// is left to do.
    fn may_leave(&mut self, shared: &Shared, state: Lifecycle) -> bool {
        let idle = shared.settings.idle_stop;
        let asked = state == Lifecycle::Suspending;
        let bored = idle > 0 && shared.clock.nanos() >= self.last_work.saturating_add(idle);
        if !asked && !bored {
            return false;
        }
        let free = local::with(|local| {
            let timers = local.kept.timers_len() as u64;
            shared.meter.counters.timers.set(timers);
            local.kept.is_idle() && local.pinned.is_empty()
        });
        if free != Some(true) || !self.driver.is_idle() || self.has_work(shared) {
            return false;
        }
        local::give_back_spare();
        self.end.publish();
        true
    }
}
