//! Hand-over of the right to produce around a task that may block. Eager: a helper is requested
//! before the task runs. Late: the producer is lent, and another thread takes it over only if the
//! task is slow.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_core::internal::discard;
use tidegate_core::{Blocking, Task};

use crate::strategy::engine::{Engine, Helper};
use crate::strategy::metrics::raise;
use crate::strategy::monitor::Watch;
use crate::strategy::producer::Producer;
use crate::strategy::raw::{NotifyResult, ProducerGuard};

use super::choice::Choice;
use super::stand_in::{reserve, send};

/// Eager hand-over: requests a helper from the pool and runs the task on this thread. If the pool
/// has no free thread for the helper, hands over late. Without `watch`, calls [`without_a_thread`]
/// instead. Returns `None` if another thread produces now.
pub(super) fn hand_over<'a, P: Producer>(
    engine: &'a Arc<Engine<P, Choice>>,
    watch: Option<&Watch>,
    held: ProducerGuard<'a, P>,
    task: Task,
) -> Option<ProducerGuard<'a, P>> {
    let rule = &engine.rule;
    let class = task.class();
    let loan = held.lend(true);
    if let Some(producer) = loan.given_up {
        discard(producer);
    }
    // A helper must not wait in a queue: it might wait there for the end of this task.
    if loan.bring_helper
        && let Err(refused) = rule.pool.try_execute(Helper::task(engine))
    {
        drop(refused);
        // `arrive` takes the producer back, unless another thread took it and produces.
        if let Some(held) = engine.cell.arrive() {
            return match watch {
                Some(watch) => lend(engine, watch, held, task),
                None => Some(without_a_thread(engine, held, task)),
            };
        }
    }
    let back = engine.execute_produce_consume(task);
    came_back(engine, class, loan.number, back.is_some());
    back
}

/// Late hand-over: lends the producer, requests no helper, and runs the task on this thread. If the
/// monitor has stopped or there is no stand-in, takes the loan back and hands over eagerly. Returns
/// `None` if another thread produces now.
#[inline]
pub(super) fn lend<'a, P: Producer>(
    engine: &'a Arc<Engine<P, Choice>>,
    watch: &Watch,
    held: ProducerGuard<'a, P>,
    task: Task,
) -> Option<ProducerGuard<'a, P>> {
    engine.counters.lent.add(1);
    let class = task.class();
    engine.rule.class.store(class, Ordering::Relaxed);
    let loan = held.lend(false);
    if let Some(producer) = loan.given_up {
        discard(producer);
    }
    let rung = watch.lent();
    if rung != NotifyResult::Awake
        && !has_pending_helper(engine, watch, rung)
        && let Some(held) = engine.cell.resume()
    {
        // Undo the count: the task is counted by the way that is used instead.
        engine.counters.lent.add(u64::MAX);
        return hand_over(engine, None, held, task);
    }
    late_execute_produce_consume(engine, task);
    let back = engine.cell.resume();
    came_back(engine, class, loan.number, back.is_some());
    back
}

/// Hands over eagerly, because no stand-in is available for a loan. If the pool has no free thread
/// for a helper, [`without_a_thread`] decides.
#[cold]
pub(super) fn without_stand_in<'a, P: Producer>(
    engine: &'a Arc<Engine<P, Choice>>,
    watch: &Watch,
    held: ProducerGuard<'a, P>,
    task: Task,
) -> Option<ProducerGuard<'a, P>> {
    raise(&engine.counters.without_stand_in);
    // The monitor's next scan allows another attempt to start a thread.
    if watch.lent() == NotifyResult::Woken {
        raise(&engine.counters.monitor_wakes);
    }
    hand_over(engine, None, held, task)
}

/// Relieves a pool thread that waited inside the producer while tasks of other producers wait for a
/// thread: gives the producer to its stand-in and runs the task. The thread then leaves the
/// strategy.
///
/// # Errors
///
/// Returns its arguments if this is not a thread of the pool, no task waits any more, or no
/// stand-in is available.
#[cold]
pub(super) fn handed_to_stand_in<'a, P: Producer>(
    engine: &'a Arc<Engine<P, Choice>>,
    held: ProducerGuard<'a, P>,
    task: Task,
) -> Result<(), (ProducerGuard<'a, P>, Task)> {
    let rule = &engine.rule;
    rule.relief.store(false, Ordering::Relaxed);
    if !rule.pool.is_current() || rule.pool.waiting() == 0 {
        return Err((held, task));
    }
    let watch = rule.own_watch();
    let Some(one) = rule
        .stand_in_slot
        .take()
        .or_else(|| watch.on_call.acquire())
    else {
        return Err((held, task));
    };
    debug_assert!(task.blocking() != Blocking::Never, "those are run in place");
    engine.counters.lent.add(1);
    raise(&engine.counters.handed_to_stand_in);
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

/// Keeps the producer, because no other thread could produce, so the task must not block this
/// thread. A task that may block is given to the executor. Any other task runs here, with the
/// thread tagged as non-blocking.
fn without_a_thread<'a, P: Producer>(
    engine: &'a Arc<Engine<P, Choice>>,
    held: ProducerGuard<'a, P>,
    task: Task,
) -> ProducerGuard<'a, P> {
    match task.blocking() {
        Blocking::May => engine.produce_execute_consume(held, task),
        Blocking::Never | Blocking::Adapts => engine.produce_invoke_consume(held, task),
    }
}

/// Called if a loan did not find the monitor awake. Returns `true` if the monitor runs (it was
/// woken) and a stand-in is reserved for the loan. Returns `false` if the caller must take the loan
/// back.
#[cold]
fn has_pending_helper<P: Producer>(
    engine: &Engine<P, Choice>,
    watch: &Watch,
    rung: NotifyResult,
) -> bool {
    if rung == NotifyResult::Over {
        return false;
    }
    raise(&engine.counters.monitor_wakes);
    // The monitor may have released the stand-in when it fell asleep.
    engine.rule.stand_in_slot.is_surely_ready() || reserve(engine, watch)
}

/// Records the end of a task that ran while its producer was in the cell, after an eager or late
/// hand-over. `back` is `true` if its thread produces again; otherwise nothing is recorded. If the
/// producer was not lent again meanwhile, the task counts as short.
#[inline(always)]
fn came_back<P: Producer>(engine: &Engine<P, Choice>, class: usize, loan: u64, back: bool) {
    if !back {
        return;
    }
    if engine.cell.snapshot().loans == loan {
        engine.rule.learned.was_short(class);
    } else {
        // Another thread has produced meanwhile. Record what kind of thread produces now.
        engine.rule.produces_here();
    }
}

/// Runs a task while its producer is lent. Never inlined, so that a profile shows it by name.
#[inline(never)]
fn late_execute_produce_consume<P: Producer>(engine: &Engine<P, Choice>, task: Task) {
    engine.run(task);
}
