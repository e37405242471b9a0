//! Clock reads between turns and in the middle of a turn, and the report of slow tasks.

use super::driver::Driver;
use super::loop_core::Core;
use crate::state::metrics::SLOW;
use crate::state::shared::Shared;
use crate::thread::local;

/// The reported name if an event loop ran no task in the measured time.
const NO_TASK: &str = "a listener or a future";

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
        let now = self.read_clock(shared);
        let over = self.pace.check(now);
        over || due.is_some_and(|due| due <= now) || !shared.mailbox.signals.is_empty()
    }

    /// Reads the clock between timers. Returns `true` if their time is used up. Timers do not make
    /// way for other timers or for signals.
    pub(super) fn check_timer_budget(&mut self, shared: &Shared) -> bool {
        let now = self.read_clock(shared);
        self.pace.check(now)
    }

    /// Reads the clock between two tasks.
    fn read_clock(&mut self, shared: &Shared) -> u64 {
        let now = shared.clock.nanos();
        shared.meter.note_longest(now);
        self.check_slow(shared, now);
        shared.meter.counters.heartbeat.set(now);
        now
    }

    /// Reports the tasks since the last clock read if they took long. Called at a clock read, before
    /// `heartbeat` is set to `now`.
    #[inline(always)]
    pub(super) fn check_slow(&mut self, shared: &Shared, now: u64) {
        let counters = &shared.meter.counters;
        if now.saturating_sub(counters.heartbeat.get()) >= SLOW {
            self.report_slow(shared, now);
        }
        self.started_before = shared.meter.running.started();
    }

    /// The clock of an event loop that is driven by hand or by a strategy also runs between turns.
    #[cold]
    fn report_slow(&self, shared: &Shared, now: u64) {
        let settings = &shared.settings;
        if self.manual || settings.driven || settings.time_tasks {
            return;
        }
        let meter = &shared.meter;
        let tasks = meter.running.started() - self.started_before;
        let last = meter.running.last_type().filter(|_| tasks > 0);
        if tasks > 0 || self.ran {
            let elapsed = now.saturating_sub(meter.counters.heartbeat.get());
            let tasks = (tasks, last.unwrap_or(NO_TASK));
            meter.report_slow(&shared.name, now, tasks, elapsed);
        }
    }
}
