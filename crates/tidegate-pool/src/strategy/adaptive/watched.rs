//! What a monitor does for one adaptive strategy: scans its cell, sends a helper or the stand-in to
//! a stuck loan, and relieves the thread that waits inside the producer.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_core::Task;
use tidegate_core::executor::ExecutorId;
use tidegate_core::internal::{PlainTask, discard};

use crate::strategy::engine::Engine;
use crate::strategy::metrics::raise;
use crate::strategy::monitor::{StandIn, Watch, Watched};
use crate::strategy::producer::Producer;
use crate::strategy::raw::CellSnapshot;

use super::choice::Choice;
use super::stand_in::send;

impl<P: Producer> Watched for Engine<P, Choice> {
    fn snapshot(&self) -> CellSnapshot {
        self.cell.snapshot()
    }

    fn scan(&self) -> bool {
        let rule = &self.rule;
        rule.starvation_detector
            .record_scan(rule.pool.finished_jobs(), rule.pool.waiting());
        let last_pec = self.counters.pec.get();
        let gave = rule.last_pec.swap(last_pec, Ordering::Relaxed) != last_pec;
        // More scans are needed to decide whether it starves, however far apart they are.
        gave || (rule.producing_stand_in.is_ready() && rule.starvation_detector.may_starve())
    }

    fn rest(&self) -> Option<StandIn> {
        self.rule.starvation_detector.forget();
        self.rule.stand_in_slot.take()
    }

    fn reserve(&self, one: StandIn) {
        if let Err(one) = self.rule.stand_in_slot.put(one) {
            self.rule.own_watch().on_call.release(one);
        }
    }

    fn offer(self: Arc<Self>, loan: u64, watch: &Watch) -> bool {
        let rule = &self.rule;
        // A stopped monitor scans for the last time, so it will not see how the pool goes on.
        let frees_threads_soon =
            rule.starvation_detector.frees_threads_soon() && watch.is_running();
        if rule.starvation_detector.send(loan) {
            let room = rule.pool.free_threads();
            if room.idle + room.may_start >= watch.spare_needed(false) {
                // Before the helper can arrive.
                rule.starvation_detector.promise(loan);
                match rule.pool.try_execute(LateHelper::task(&self, loan)) {
                    Ok(()) => {
                        raise(&self.counters.helpers);
                        return true;
                    }
                    // Dropping the helper removes its mark in the detector.
                    Err(refused) => drop(refused),
                }
            }
            raise(&self.counters.no_pool_thread);
            rule.starvation_detector.helper_done(loan);
            // The next pool thread that finishes a short job takes this helper first.
            if frees_threads_soon {
                rule.starvation_detector.send(loan);
                let helper = LateHelper::task(&self, loan);
                if rule.pool.execute_internal(helper).is_ok() {
                    raise(&self.counters.helpers);
                    return true;
                }
            }
        }
        if frees_threads_soon || rule.starvation_detector.is_promised(loan) {
            return false;
        }
        // A helper that is still on its way for an earlier loan does not count.
        let one = rule
            .stand_in_slot
            .take()
            .or_else(|| watch.on_call.acquire());
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
        (rule.producing_stand_in.is_ready() && rule.starvation_detector.is_starved())
            .then(|| rule.pool.id())
    }

    fn send_helper(&self, pool: ExecutorId) -> bool {
        let rule = &self.rule;
        let Some(interrupt) = &rule.interrupt else {
            return false;
        };
        let waits = rule.on_pool.load(Ordering::Relaxed)
            && !rule.producing_stand_in.is_ready()
            && !self.cell.is_idle()
            && !self.cell.snapshot().lent;
        if !waits || rule.pool.id() != pool || rule.relief.swap(true, Ordering::Relaxed) {
            return false;
        }
        interrupt();
        true
    }

    fn release_watch(self: Arc<Self>, watch: &Watch) {
        // The last reference to a strategy drops its producer, which is user code and may block. So
        // do it on a stand-in, if one is available.
        if let Some(engine) = Arc::into_inner(self) {
            match watch.on_call.acquire() {
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

/// A helper that the monitor sent for one loan. Metrics show it by this name.
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
        PlainTask::internal::<Self, _>(move || helper.arrive())
    }

    fn arrive(self) {
        let engine = Arc::clone(&self.engine);
        let (loan, class) = (self.loan, self.class);
        let held = engine.cell.take_loan(loan);
        // The helper has arrived: the next loan needs another one.
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
        // Arrived, refused, or dropped with its queue: the helper is no longer on its way.
        self.engine.rule.starvation_detector.helper_done(self.loan);
    }
}
