//! The stand-in: a thread of the monitor that produces while no thread of the pool can.
//!
//! For each loan one stand-in is reserved (see `StandInPool` in `monitor`). If a lent task blocks
//! and the pool has no thread for its producer, the stand-in takes the producer. It is tagged as
//! non-blocking meanwhile: it gives tasks that may block to the pool, so it is never blocked
//! itself. As soon as the pool has a thread again, it gives the producer back and waits for the
//! next loan.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_core::Blocking;
use tidegate_core::internal::discard;

use crate::strategy::engine::{Engine, Helper};
use crate::strategy::metrics::raise;
use crate::strategy::monitor::{StandIn, Watch};
use crate::strategy::producer::Producer;
use crate::strategy::raw::{NotifyResult, ProducerGuard};

use super::choice::Choice;

tidegate_core::internal::prim::thread_local! {
    /// The strategy for which this thread is the stand-in; 0 if for none.
    static STANDS_IN_FOR: Cell<usize> = const { Cell::new(0) };
}

/// Returns `true` if this thread is a stand-in for a strategy now.
pub(super) fn stands_in() -> bool {
    STANDS_IN_FOR.with(Cell::get) != 0
}

impl Choice {
    /// Records what kind of thread produces from now on.
    pub(super) fn produces_here(&self) {
        let on_pool = self.pool.is_current() && !stands_in();
        self.on_pool.store(on_pool, Ordering::Relaxed);
    }
}

/// Sends the stand-in `one` to loan number `loan`.
#[cold]
pub(super) fn send<P: Producer>(engine: &Arc<Engine<P, Choice>>, loan: u64, one: StandIn) {
    // Before the stand-in can arrive.
    engine.rule.starvation_detector.promise(loan);
    raise(&engine.counters.helpers);
    let class = engine.rule.class.load(Ordering::Relaxed);
    let own = Arc::clone(engine);
    one.send(move |one| come(&own, loan, class, one));
}

fn come<P: Producer>(engine: &Arc<Engine<P, Choice>>, loan: u64, class: usize, one: StandIn) {
    let held = engine.cell.take_loan(loan);
    engine.rule.starvation_detector.helper_done(loan);
    let one = match held {
        Some(held) => {
            raise(&engine.counters.late_epc);
            raise(&engine.counters.stand_ins);
            engine.rule.learned.was_long(class);
            stand_in(engine, held, one)
        }
        None => {
            raise(&engine.counters.idle_helpers);
            Some(one)
        }
    };
    if let Some(one) = one {
        put_back(engine, one);
    }
}

/// Produces as a stand-in. Returns the stand-in, unless it was reserved again meanwhile.
fn stand_in<P: Producer>(
    engine: &Arc<Engine<P, Choice>>,
    held: ProducerGuard<'_, P>,
    one: StandIn,
) -> Option<StandIn> {
    let rule = &engine.rule;
    let Err(one) = rule.producing_stand_in.put(one) else {
        let watch = rule.own_watch();
        watch.on_call.on_duty(true);
        let before = STANDS_IN_FOR.with(|key| key.replace(engine.key()));
        Blocking::forbid(|| engine.drive(held));
        STANDS_IN_FOR.with(|key| key.set(before));
        watch.on_call.on_duty(false);
        return rule.producing_stand_in.take();
    };
    // Not reached: a stand-in leaves the duty slot before it lends the producer.
    drop(held);
    Some(one)
}

/// Reserves a stand-in for the next loan after its task has ended.
fn put_back<P: Producer>(engine: &Arc<Engine<P, Choice>>, mut one: StandIn) {
    let rule = &engine.rule;
    let watch = rule.own_watch();
    loop {
        if let Err(one) = rule.stand_in_slot.put(one) {
            return watch.on_call.release(one);
        }
        // A monitor that stops may have made its last scan while this thread was away. It then
        // found no stand-in, so this thread must take the current loan itself.
        if !watch.is_surely_over() {
            return;
        }
        let Some(own) = rule.stand_in_slot.take() else {
            return;
        };
        let lent = engine.cell.snapshot().lent;
        let Some(held) = lent.then(|| engine.cell.resume()).flatten() else {
            return watch.on_call.release(own);
        };
        raise(&engine.counters.late_epc);
        raise(&engine.counters.stand_ins);
        match stand_in(engine, held, own) {
            Some(own) => one = own,
            None => return,
        }
    }
}

/// Called after a task on a tagged thread. If this thread is the stand-in and the pool has a thread
/// again, gives the producer back. Returns `None` if another thread will take it.
pub(super) fn give_back<'a, P: Producer>(
    engine: &'a Arc<Engine<P, Choice>>,
    held: ProducerGuard<'a, P>,
) -> Option<ProducerGuard<'a, P>> {
    if STANDS_IN_FOR.with(Cell::get) != engine.key() {
        return Some(held);
    }
    let rule = &engine.rule;
    let watch = rule.watch();
    // The monitor must be awake to see when the pool's threads become free again.
    if watch.is_some_and(|watch| watch.lent() == NotifyResult::Woken) {
        raise(&engine.counters.monitor_wakes);
    }
    let frees_threads_soon = watch.is_some() && rule.starvation_detector.frees_threads_soon();
    let room = rule.pool.free_threads();
    let spare = rule.own_watch().spare_needed(true);
    if !frees_threads_soon && room.idle + room.may_start < spare {
        return Some(held);
    }
    // From here on this stand-in is the reserved one for its own loan.
    let Some(own) = rule.producing_stand_in.take() else {
        return Some(held);
    };
    reserve_again(engine, own);
    let back = if room.idle >= spare {
        give_to_thread(engine, held)
    } else {
        Some(held)
    };
    let back = match (back, watch) {
        // The monitor notices if no thread takes a helper that is in a queue.
        (Some(held), Some(_)) => give_to_queue(engine, held),
        (back, _) => back,
    };
    if back.is_some()
        && let Some(own) = rule.stand_in_slot.take()
        && let Err(own) = rule.producing_stand_in.put(own)
    {
        rule.own_watch().on_call.release(own);
    }
    back
}

/// Reserves the calling stand-in and replaces any other: the others are idle, and this one will be.
fn reserve_again<P: Producer>(engine: &Engine<P, Choice>, mut own: StandIn) {
    let rule = &engine.rule;
    while let Err(back) = rule.stand_in_slot.put(own) {
        if let Some(other) = rule.stand_in_slot.take() {
            rule.own_watch().on_call.release(other);
        }
        own = back;
    }
}

/// Gives the producer to an idle thread. Returns it if there is no idle thread.
fn give_to_thread<'a, P: Producer>(
    engine: &'a Arc<Engine<P, Choice>>,
    held: ProducerGuard<'a, P>,
) -> Option<ProducerGuard<'a, P>> {
    let loan = held.lend(true);
    if let Some(producer) = loan.given_up {
        discard(producer);
    }
    if !loan.bring_helper {
        return None;
    }
    // Dropping a refused helper clears the pending mark in the cell.
    match engine.rule.pool.try_execute(Helper::task(engine)) {
        Ok(()) => None,
        Err(refused) => {
            drop(refused);
            engine.cell.arrive()
        }
    }
}

/// Sends a helper to the head of the pool's queue. Returns the producer if the helper is refused.
fn give_to_queue<'a, P: Producer>(
    engine: &'a Arc<Engine<P, Choice>>,
    held: ProducerGuard<'a, P>,
) -> Option<ProducerGuard<'a, P>> {
    let loan = held.lend_to_queue();
    if let Some(producer) = loan.given_up {
        discard(producer);
    }
    if !loan.bring_helper {
        return None;
    }
    match engine.rule.pool.execute_internal(Helper::task(engine)) {
        Ok(()) => None,
        Err(refused) => {
            raise(&engine.counters.helpers_refused);
            drop(refused);
            engine.cell.arrive()
        }
    }
}

/// Reserves a stand-in for a strategy that has none: an idle one, or a new one. Returns `false` if
/// none is available.
#[cold]
pub(super) fn reserve<P: Producer>(engine: &Engine<P, Choice>, watch: &Watch) -> bool {
    let Some(one) = watch.on_call.acquire() else {
        return false;
    };
    if let Err(one) = engine.rule.stand_in_slot.put(one) {
        watch.on_call.release(one);
    }
    true
}
