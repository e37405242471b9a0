//! The decision: how a task is run, and which thread produces next.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_core::executor::{Need, Work};
use tidegate_core::internal::discard;
use tidegate_core::{Blocking, Dump, Executor, RejectReason, Rejected, Task};

use crate::strategy::engine::{Engine, Helper, Rule};
use crate::strategy::metrics::raise;
use crate::strategy::monitor::Watch;
use crate::strategy::producer::Producer;
use crate::strategy::raw::{HelperRequest, ProducerGuard};

use super::choice::Choice;
use super::hand_over::{hand_over, handed_to_stand_in, lend, without_stand_in};
use super::stand_in::{give_back, reserve, stands_in};

impl<P: Producer> Rule<P> for Choice {
    fn consume<'a>(
        engine: &'a Arc<Engine<P, Self>>,
        held: ProducerGuard<'a, P>,
        task: Task,
        tagged: bool,
    ) -> Option<ProducerGuard<'a, P>> {
        match (task.blocking(), tagged) {
            (Blocking::Never, _) | (Blocking::Adapts, true) => {
                let held = engine.produce_consume(held, task);
                return if tagged {
                    give_back(engine, held)
                } else {
                    Some(held)
                };
            }
            (Blocking::May, true) => {
                return give_back(engine, engine.produce_execute_consume(held, task));
            }
            (Blocking::Adapts | Blocking::May, false) => {}
        }
        let rule = &engine.rule;
        let Some(watch) = rule.watch() else {
            return hand_over(engine, None, held, task);
        };
        let (held, task) = match rule.relief.load(Ordering::Relaxed) {
            false => (held, task),
            true => match handed_to_stand_in(engine, held, task) {
                Ok(()) => return None,
                Err(back) => back,
            },
        };
        // A stand-in must be ready to take over if the task turns out to block.
        if !rule.stand_in_slot.is_ready() && !reserve(engine, watch) {
            return without_stand_in(engine, watch, held, task);
        }
        if wants_thread(rule, watch, &*held, &task) {
            hand_over(engine, Some(watch), held, task)
        } else {
            lend(engine, watch, held, task)
        }
    }

    fn dispatch(engine: &Arc<Engine<P, Self>>) -> Result<(), Rejected<()>> {
        match engine.cell.request_round() {
            HelperRequest::Enough => Ok(()),
            HelperRequest::Closed => Err(Rejected::new((), RejectReason::Closed)),
            HelperRequest::BringHelper => {
                let helper = Helper::task(engine);
                engine
                    .rule
                    .pool
                    .execute_internal(helper)
                    .map_err(|refused| {
                        raise(&engine.counters.helpers_refused);
                        // Dropping the helper clears the pending mark in the cell.
                        refused.map(discard)
                    })
            }
        }
    }

    fn driving(&self, begins: bool) {
        if let Some(watch) = self.any_watch() {
            watch.driving(begins);
            if begins {
                self.produces_here();
            }
        }
        if let Some(lease) = &self.lease
            && (self.pool.is_current() || stands_in())
        {
            lease.set_in_use(begins);
        }
    }

    /// With a stand-in for production, the thread that drives the producer can run the task.
    fn task_needs(&self, executor: &dyn Executor) -> Vec<Need> {
        let needs = executor.needs(Work::Given);
        match self.watch() {
            None => needs,
            Some(_) => needs.into_iter().map(Need::of_any_thread).collect(),
        }
    }

    fn describe(&self, dump: Dump) -> Dump {
        let monitor = self.any_watch().map(|watch| match watch.is_running() {
            true => "running",
            false => "shut down",
        });
        dump.fact("late_hand_over", self.watch().is_some())
            .fact_if("monitor", monitor)
    }
}

/// Returns `true` if the task should get a thread at once, although short tasks need none: it is
/// declared or known to be long, or more tasks are ready and a processor is idle.
fn wants_thread<P: Producer>(rule: &Choice, watch: &Watch, held: &P, task: &Task) -> bool {
    task.is_long()
        || rule.learned.is_long(task.class())
        || (watch.has_idle_cpu() && held.backlog() > 0 && rule.pool.free_threads().idle > 0)
}
