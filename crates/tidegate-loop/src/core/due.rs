//! Running the timers and timeouts that are due, as one kind of a turn's work.

use super::budget::BUDGET;
use super::driver::Driver;
use super::loop_core::Core;
use super::run_task::run_task;
use crate::schedule::{coarse_timer, scheduled_task};
use crate::state::shared::Shared;
use crate::thread::local;

impl<D: Driver> Core<D> {
    /// Runs the timers and timeouts that are due, then begins the budget of the next kind of work.
    pub(super) fn run_due(&mut self, shared: &Shared, now: u64) -> bool {
        let spans = &shared.settings.spans;
        self.pace.begin(now, spans.timers);
        let mut ran = self.run_timers(shared, now);
        ran |= self.run_timeouts(shared, now);
        self.begin_kind(shared, now, ran, spans.tasks);
        ran
    }

    fn run_timers(&mut self, shared: &Shared, now: u64) -> bool {
        let mut runs = 0;
        while runs < BUDGET && !shared.is_out_of_time() {
            let Some(due) = local::with(|local| local.loop_state.timers.pop_due(now)).flatten()
            else {
                break;
            };
            runs += 1;
            let late = now.saturating_sub(due.deadline);
            shared.meter.note_lateness(late);
            scheduled_task::fire(shared, due, &mut |task| run_task(shared, task));
            if self.pace.step() && self.check_timer_budget(shared) {
                break;
            }
        }
        runs > 0
    }

    fn run_timeouts(&mut self, shared: &Shared, now: u64) -> bool {
        let mut looks = 0;
        while looks < BUDGET && !shared.is_out_of_time() {
            let due = local::with(|local| local.loop_state.coarse.pop_due(now)).flatten();
            let Some(due) = due else { break };
            looks += 1;
            if let Some((task, late)) = coarse_timer::expire(shared, &due, now) {
                shared.meter.note_lateness(late);
                run_task(shared, task);
            }
            if self.pace.step() && self.check_timer_budget(shared) {
                break;
            }
        }
        looks > 0
    }
}
