//! Clock reads in the middle of a turn.

use super::driver::Driver;
use super::loop_core::Core;
use crate::state::shared::Shared;
use crate::thread::local;

impl<D: Driver> Core<D> {
    /// Begins another kind of work. `ran` is `true` if the kind before took any time.
    #[inline]
    pub(super) fn begin_kind(&mut self, shared: &Shared, now: u64, ran: bool, budget: u64) {
        let now = if ran { shared.clock.nanos() } else { now };
        self.pace.begin(now, budget);
    }

    /// Reads the clock in the middle of a turn. Returns `true` if the time for this kind of work is
    /// used up, a timer is due, or a signal is waiting.
    pub(super) fn check_clock(&mut self, shared: &Shared) -> bool {
        let due = local::with(|local| local.loop_state.next_deadline()).flatten();
        let now = shared.clock.nanos();
        shared.meter.note_longest(now);
        shared.meter.counters.heartbeat.set(now);
        let over = self.pace.check(now);
        over || due.is_some_and(|due| due <= now) || !shared.mailbox.signals.is_empty()
    }

    /// Reads the clock between timers. Returns `true` if their time is used up. Timers do not make
    /// way for other timers or for signals.
    pub(super) fn check_timer_budget(&mut self, shared: &Shared) -> bool {
        let now = shared.clock.nanos();
        shared.meter.note_longest(now);
        shared.meter.counters.heartbeat.set(now);
        self.pace.check(now)
    }
}
