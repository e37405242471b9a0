//! What the monitor does for one late strategy: looks, sends helpers, relieves, lets go.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_core::{Blocking, ExecutorId, Task, discard};

use crate::strategy::raw::{Glance, Held};

use super::adaptive::{Choice, late_execute_produce_consume};
use super::counts::raise;
use super::engine::Engine;
use super::monitor::{Watch, Watched};
use super::on_call::StandIn;
use super::producer::Producer;
use super::stand_in::send;

impl<P: Producer> Watched for Engine<P, Choice> {
    fn glance(&self) -> Glance {
        self.cell.glance()
    }

    fn look(&self) -> bool {
        let rule = &self.rule;
        rule.lookout.saw(rule.pool.moves(), rule.pool.waiting());
        let given = self.counters.pec.get();
        let gave = rule.given.swap(given, Ordering::Relaxed) != given;
        // Whether it starves takes more looks, however far apart they are.
        gave || (rule.duty.is_ready() && rule.lookout.may_starve())
    }

    fn rest(&self) -> Option<StandIn> {
        self.rule.lookout.forget();
        self.rule.standby.take()
    }

    fn reserve(&self, one: StandIn) {
        if let Err(one) = self.rule.standby.put(one) {
            self.rule.own_watch().on_call.release(one);
        }
    }

    fn offer(self: Arc<Self>, loan: u64, watch: &Watch) -> bool {
        let rule = &self.rule;
        // With the last look nobody will see what becomes of the pool.
        let is_brisk = rule.lookout.is_brisk() && watch.is_running();
        if rule.lookout.send(loan) {
            let room = rule.pool.room();
            if room.idle + room.may_start >= watch.spare_needed(false) {
                // Before it can come.
                rule.lookout.promise(loan);
                match rule.pool.try_execute(LateHelper::task(&self, loan)) {
                    Ok(()) => {
                        raise(&self.counters.helpers);
                        return true;
                    }
                    // Its drop takes back that one is on its way.
                    Err(refused) => drop(refused),
                }
            }
            raise(&self.counters.no_spare);
            rule.lookout.came(loan);
            // The next thread that is done with a short job comes here first.
            if is_brisk {
                rule.lookout.send(loan);
                let helper = LateHelper::task(&self, loan);
                if rule.pool.execute_internal(helper).is_ok() {
                    raise(&self.counters.helpers);
                    return true;
                }
            }
        }
        if is_brisk || rule.lookout.is_promised(loan) {
            return false;
        }
        // One that is on its way back from an earlier loan does not count.
        let one = rule.standby.take().or_else(|| watch.on_call.hire());
        let Some(one) = one else {
            return false;
        };
        send(&self, loan, one);
        true
    }

    fn is_over(&self) -> bool {
        self.cell.is_over()
    }

    fn starves(&self) -> Option<ExecutorId> {
        let rule = &self.rule;
        (rule.duty.is_ready() && rule.lookout.is_starved()).then(|| rule.pool.id())
    }

    fn relieve(&self, pool: ExecutorId) -> bool {
        let rule = &self.rule;
        let Some(interrupt) = &rule.interrupt else {
            return false;
        };
        let waits = rule.on_pool.load(Ordering::Relaxed)
            && !rule.duty.is_ready()
            && !self.cell.is_idle()
            && !self.cell.glance().lent;
        if !waits || rule.pool.id() != pool || rule.relief.swap(true, Ordering::Relaxed) {
            return false;
        }
        interrupt();
        true
    }

    fn let_go(self: Arc<Self>, watch: &Watch) {
        // The last one to know of the strategy drops its producer, which is the user's and may
        // block: not here, if it can be helped.
        if let Some(engine) = Arc::into_inner(self) {
            match watch.on_call.hire() {
                Some(one) => one.send(move |one| {
                    let watch = Arc::clone(engine.rule.own_watch());
                    discard(engine);
                    watch.on_call.release(one);
                }),
                None => discard(engine),
            }
        }
    }
}

/// A thread of the pool that waits inside a producer, while tasks of other producers wait for a
/// thread: gives the producer to its stand-in, runs the task and leaves.
///
/// # Errors
///
/// What it was given, when nothing waits any more or no stand-in can be had.
#[cold]
pub(super) fn relieved<'a, P: Producer>(
    engine: &'a Arc<Engine<P, Choice>>,
    held: Held<'a, P>,
    task: Task,
) -> Result<(), (Held<'a, P>, Task)> {
    let rule = &engine.rule;
    rule.relief.store(false, Ordering::Relaxed);
    if !rule.pool.is_current() || rule.pool.waiting() == 0 {
        return Err((held, task));
    }
    let watch = rule.own_watch();
    let Some(one) = rule.standby.take().or_else(|| watch.on_call.hire()) else {
        return Err((held, task));
    };
    debug_assert!(task.blocking() != Blocking::Never, "those are run in place");
    engine.counters.lent.add(1);
    raise(&engine.counters.relieved);
    rule.class.store(task.class(), Ordering::Relaxed);
    let loan = held.lend(false);
    match loan.given_up {
        Some(producer) => {
            watch.on_call.release(one);
            discard(producer);
        }
        None => send(engine, loan.number, one),
    }
    late_execute_produce_consume(engine, task);
    Ok(())
}

/// A helper that the monitor sent for one loan; shows up in metrics by this name.
struct LateHelper<P: Producer> {
    engine: Arc<Engine<P, Choice>>,
    loan: u64,
    class: usize,
}

impl<P: Producer> LateHelper<P> {
    fn task(engine: &Arc<Engine<P, Choice>>, loan: u64) -> Task {
        let helper = Self {
            engine: Arc::clone(engine),
            loan,
            class: engine.rule.class.load(Ordering::Relaxed),
        };
        Task::labelled::<Self, _>(move || helper.arrive())
    }

    fn arrive(self) {
        let engine = Arc::clone(&self.engine);
        let (loan, class) = (self.loan, self.class);
        let held = engine.cell.take_loan(loan);
        // It has come: what lies there from now on needs another one.
        drop(self);
        match held {
            Some(held) => {
                raise(&engine.counters.late_epc);
                engine.rule.learned.was_long(class);
                engine.drive(held);
            }
            None => raise(&engine.counters.idle_helpers),
        }
    }
}

impl<P: Producer> Drop for LateHelper<P> {
    fn drop(&mut self) {
        // Arrived, refused, or dropped with its queue: it is not on its way any more.
        self.engine.rule.lookout.came(self.loan);
    }
}
