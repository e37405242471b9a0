//! The stand-in: a thread of the monitor's own that produces while every thread of the pool is held.
//!
//! A producer is lent in a brisk pool on a guess (see [`Lookout`](tidegate_sync::Lookout)). Where the
//! guess was wrong, and the task blocks together with all other threads, nobody of the pool can
//! go on producing. A stand-in then does. It is tagged as non-blocking for as long as it lives:
//! what may block it gives to the pool, and so it is never held itself. As soon as the pool
//! has a thread again, or is brisk again, it gives the producer back and ends.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_sync::{Held, discard, non_blocking};

use super::adaptive::Choice;
use super::counts::raise;
use super::engine::{Engine, Helper};
use super::monitor::Watch;
use super::producer::Producer;

tidegate_sync::prim::thread_local! {
    static STANDS_IN: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is a stand-in.
pub(super) fn stands_in() -> bool {
    STANDS_IN.with(Cell::get)
}

/// Starts a stand-in for loan number `loan`.
#[cold]
pub(super) fn send_stand_in<P: Producer>(
    engine: &Arc<Engine<P, Choice>>,
    loan: u64,
    watch: &Watch,
) {
    let lookout = &engine.rule.lookout;
    if !lookout.unmark(loan) {
        // It was taken or taken back, and there is a later loan.
        return;
    }
    let own = Arc::clone(engine);
    let class = engine.rule.class.load(Ordering::Relaxed);
    if watch.start_stand_in(move || stand_in(&own, loan, class)) {
        raise(&engine.counters.helpers);
    } else {
        lookout.mark_again(loan);
    }
}

fn stand_in<P: Producer>(engine: &Arc<Engine<P, Choice>>, loan: u64, class: usize) {
    STANDS_IN.with(|one| one.set(true));
    match engine.cell.take_loan(loan) {
        Some(held) => {
            raise(&engine.counters.late_epc);
            raise(&engine.counters.stand_ins);
            engine.rule.learned.was_long(class);
            non_blocking(|| engine.drive(held));
        }
        None => raise(&engine.counters.idle_helpers),
    }
}

/// After a task on a thread that is tagged. A stand-in whose pool can do without it gives the
/// producer back; it leaves if somebody comes for it.
pub(super) fn give_back<'a, P: Producer>(
    engine: &'a Arc<Engine<P, Choice>>,
    held: Held<'a, P>,
) -> Option<Held<'a, P>> {
    if !stands_in() {
        return Some(held);
    }
    let rule = &engine.rule;
    let watch = rule.watch();
    // It has to see when the pool moves again.
    if watch.is_some_and(Watch::lent) {
        raise(&engine.counters.monitor_wakes);
    }
    let is_brisk = watch.is_some() && rule.lookout.is_brisk();
    if !is_brisk && !rule.pool.has_thread() {
        return Some(held);
    }
    // This is a guess again.
    rule.lookout.mark(held.next_loan());
    let loan = held.lend(true);
    if let Some(producer) = loan.given_up {
        discard(producer);
    }
    if loan.bring_helper {
        rule.queued.store(true, Ordering::Relaxed);
        if let Err(refused) = rule.pool.execute_internal(Helper::task(engine)) {
            raise(&engine.counters.helpers_refused);
            // Its drop takes back that one is on its way.
            drop(refused);
            return engine.cell.arrive();
        }
    }
    None
}
