//! One turn of an event loop.
//!
//! A turn processes each kind of work once: signals, timers that are due, the event loop's own
//! tasks, the lane, the driver's tasks. Each kind has a budget, by number and by time, so that none
//! starves the others. The clock is read once per turn, once when a kind of work follows another
//! that ran, and every [`LOOK`](super::budget::LOOK) tasks.

use std::sync::Arc;

use tidegate_core::internal::contain;

use super::budget::BUDGET;
use super::driver::Driver;
use super::loop_core::{Core, Turn};
use super::run_task::{report_panic, run_task};
use crate::state::metrics::IN_SIGNALS;
use crate::state::shared::Shared;
use crate::thread::local;

/// The number of tasks in a row after which the lane counts as densely filled.
const DENSE: usize = 16;
/// For how many tasks after a refusal the event loop publishes its progress more often.
const PRESSED: u32 = 1024;
/// The number of tasks between two such publications.
const STEP: u32 = 16;

impl<D: Driver> Core<D> {
    /// Runs one turn.
    pub(crate) fn turn(&mut self, shared: &Arc<Shared>) -> Turn {
        let now = self.begin(shared);
        let mut ran = self.run_signals(shared);
        ran |= self.run_due(shared, now);
        ran |= self.run_own(shared);
        ran |= self.run_lane(shared);
        self.poll_driver(ran);
        self.ran = self.run_driver(shared, now, ran) | ran;
        if self.ran {
            shared.meter.running.idle();
            self.last_work = now;
        }
        Turn::of(ran, self.ran)
    }

    pub(super) fn begin(&mut self, shared: &Shared) -> u64 {
        let now = match self.woke.take() {
            Some(woke) => woke,
            None => {
                let now = shared.clock.nanos();
                self.check_slow(shared, now);
                now
            }
        };
        let counters = &shared.meter.counters;
        counters.turns.add(1);
        counters.heartbeat.set(now.max(1));
        if std::mem::take(&mut self.measure_queue) || self.manual {
            counters.high_water.raise_to(shared.pending() as u64);
        }
        local::with(|local| {
            counters
                .high_water
                .raise_to(local.loop_state.tasks.len() as u64);
            counters.timers.set(local.loop_state.timers_len() as u64);
            let futures = local.loop_state.futures.len() + local.pinned.len();
            counters.futures.set(futures as u64);
        });
        now
    }

    pub(super) fn run_signals(&mut self, shared: &Shared) -> bool {
        let mut count = 0_usize;
        shared.mailbox.reset_silent_if_any();
        for signal in shared.mailbox.signals.take() {
            if count == 0 {
                shared.meter.counters.activity.set(IN_SIGNALS);
            }
            count += 1;
            // Listeners and futures catch their own panics; this is the last resort.
            let delivered = contain(|| signal.deliver());
            if let Err(panic) = delivered {
                report_panic(shared, "a signal", panic);
            }
        }
        if count > 0 {
            shared.meter.counters.activity.set(0);
            if shared.dump_requests.have_arrived() {
                self.answer_dumps(shared);
                // A request for a dump is not work: it neither restarts the quiet period of a
                // shutdown nor keeps an idle event loop from giving its thread back.
                count -= 1;
            }
        }
        count > 0
    }

    fn run_own(&mut self, shared: &Shared) -> bool {
        let mut runs = 0;
        while runs < BUDGET && !shared.is_out_of_time() {
            let Some(task) = local::pop() else { break };
            run_task(shared, task);
            runs += 1;
            if self.pace.step() && self.check_clock(shared) {
                break;
            }
        }
        runs > 0
    }

    fn run_lane(&mut self, shared: &Shared) -> bool {
        let mut runs = 0;
        let mut since_pause = 0;
        let published_at = &shared.meter.counters.published_at;
        published_at.set(shared.meter.running.started() + 1);
        while runs < BUDGET && !shared.is_out_of_time() {
            let Some(task) = self.task_receiver.pop() else {
                let dense = since_pause >= DENSE || self.idle_spin.is_behind_producer();
                let end = &mut self.task_receiver;
                if dense && shared.settings.spin && self.idle_spin.pause(|| end.is_ready()) {
                    since_pause = 0;
                    continue;
                }
                break;
            };
            run_task(shared, task);
            runs += 1;
            since_pause += 1;
            if self.task_receiver.take_head_request() {
                local::give_back_spare();
                self.publish_often_for = PRESSED;
                self.task_receiver.publish();
                published_at.set(shared.meter.running.started() + 1);
            } else if self.publish_often_for > 0 {
                self.publish_often_for -= 1;
                if self.publish_often_for.is_multiple_of(STEP) {
                    self.task_receiver.publish();
                    published_at.set(shared.meter.running.started() + 1);
                }
            }
            if self.pace.step() && self.check_clock(shared) {
                break;
            }
        }
        if runs > 0 {
            self.task_receiver.publish();
        }
        // All tasks of the batch but the first were waiting. After a full batch the next turn
        // measures the queue.
        shared
            .meter
            .counters
            .high_water
            .raise_to(runs.saturating_sub(1) as u64);
        self.measure_queue |= runs == BUDGET;
        published_at.set(0);
        runs > 0
    }

    /// Polls the driver after every second turn with other work. Work that an event caused runs in
    /// the next turn, and an event loop without other work waits on its driver anyway.
    pub(super) fn poll_driver(&mut self, ran: bool) {
        self.turns_since_poll += u32::from(ran);
        if self.turns_since_poll >= 2 || self.manual {
            self.turns_since_poll = 0;
            self.driver.poll();
        }
    }

    fn run_driver(&mut self, shared: &Shared, now: u64, ran: bool) -> bool {
        let mut runs = 0;
        while runs < BUDGET && !shared.is_out_of_time() {
            let most = self.most_of_driver(shared, runs);
            let Some((task, several)) = self.driver.next_tasks(most) else {
                break;
            };
            if runs == 0 {
                self.begin_kind(shared, now, ran, shared.settings.spans.io);
            }
            run_task(shared, task);
            let several = several.max(1);
            runs += several;
            if self.pace.steps(several) && self.check_clock(shared) {
                break;
            }
        }
        runs > 0
    }

    /// Returns how many work items the driver's next task may have, after `runs` of them in this turn.
    #[inline]
    pub(super) fn most_of_driver(&self, shared: &Shared, runs: usize) -> usize {
        if shared.settings.time_tasks {
            1
        } else {
            self.pace.left(runs == 0).min(BUDGET - runs)
        }
    }
}
