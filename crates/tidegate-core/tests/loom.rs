//! Models of the word-level protocols: every interleaving within a bound (`cargo xtask loom`).
//!
//! Bounds: at most three threads (the model's own is the loop), chunks of two slots, lanes of one
//! to six tasks, at most `LOOM_MAX_PREEMPTIONS` preemptions per execution (two by default in
//! `xtask`, three with `--long`). Each model says its own sizes.
//!
//! Loom implements the C11 memory model without a total order of `SeqCst` accesses: it treats them
//! as `AcqRel` and honours `SeqCst` fences. `claim_fence` in `prim` is such a fence here and does
//! nothing in a program. `TaskLane::push` executes it after the write, whereas a program orders
//! only the claim before the load of the doorbell. That the loop must check for claims and not for
//! written slots is therefore covered by the models of draining, not by those of sleeping.
//!
//! In every model, loom itself detects unordered accesses of two threads to one cell (a slot's
//! data, a chunk's tag, [`Log`]), a loom `Arc` that is dropped too often or never (each task holds
//! one), and deadlocks.
//!
//! # Mutations that the models detect
//!
//! Each of these changes to the sources, made one at a time, failed at least one model with two
//! preemptions (*Fails when* at a model names the typical ones):
//!
//! * Task lane: tag stored or read relaxed; tag not toggled; a fresh or a used chunk installed
//!   relaxed, or another producer's fresh one read relaxed; the directory entry read relaxed by a
//!   producer or by the loop; `head` published or read relaxed; `seen` stored or loaded relaxed; a
//!   used entry not cleared; a directory one entry short (hangs); the bound off by one; the closed
//!   bit not checked; `drain` not waiting for claimed slots; reservations not counted, or counted
//!   after the check.
//! * Doorbell: no fence in `arm`, in `TaskLane::push` or in `SignalLane::push`; `is_empty` counting
//!   written slots; `ring` that does not reset the word, or ignores the value that it replaced.
//! * Parker: each of its swaps relaxed; a pending wakeup overwritten instead of read.
//! * Signals: push, take or close relaxed; `take` by a plain swap; the batch not reversed; either
//!   swap of `raised` relaxed, or the flag cleared after the delivery.
//! * Wake flag: either swap of `raise` and `clear` relaxed; `hold` by a store; the flag cleared after
//!   the poll.
//! * Owner cell: `put` or `take` relaxed.
//!
//! Not detected, for reasons given at the code: the `SeqCst` of the claim, of `close`, `len` and
//! `is_empty` (the fences replace them).
//!
//! A model that loom finishes in one iteration proves nothing: `LOOM_LOG=info` prints the number.
#![cfg(tidegate_loom)]

use std::sync::Arc as StdArc;

use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::thread;
use tidegate_core::internal::{
    Deliver, Delivery, Doorbell, OwnerCell, SignalBlock, SignalLane, TaskLane, TaskLaneReceiver,
    WakeFlag,
};
use tidegate_core::permits::Permits;
use tidegate_core::{Parker, Task};

#[path = "../../tidegate-testkit/shared/loom_log.rs"]
mod loom_log;

use loom_log::Log;

/// Creates a task that logs `what`.
fn note(log: &Arc<Log>, what: u32) -> Task {
    let log = Arc::clone(log);
    Task::new(move || log.note(what))
}

/// Pops and runs tasks until `count` tasks have run; publishes after each one if `publish`.
fn run(end: &mut TaskLaneReceiver, count: usize, publish: bool) {
    let mut ran = 0;
    while ran < count {
        match end.pop() {
            Some(task) => {
                task.run();
                ran += 1;
                if publish {
                    end.publish();
                }
            }
            None => thread::yield_now(),
        }
    }
}

#[path = "models/task_lane.rs"]
mod task_lane;

#[path = "models/sleep.rs"]
mod sleep;

/// A block that stores its latest value in `received` when it is delivered.
struct News {
    latest: AtomicUsize,
    received: AtomicUsize,
    notified: AtomicUsize,
}

impl Default for News {
    fn default() -> Self {
        Self {
            latest: AtomicUsize::new(0),
            received: AtomicUsize::new(0),
            notified: AtomicUsize::new(0),
        }
    }
}

impl Deliver for News {
    fn deliver(block: StdArc<SignalBlock<Self>>, _how: Delivery) {
        block.received.store(block.latest.load(Relaxed), Relaxed);
        block.notified.fetch_add(1, Relaxed);
    }
}

#[path = "models/signals.rs"]
mod signals;

#[path = "models/wakes.rs"]
mod wakes;

/// Three threads, one value: a thread that takes it is its only owner and sees what the last owner
/// did.
/// Fails when: `put` is not Release or `take` is not Acquire.
#[test]
fn an_owner_is_alone_and_sees_what_the_last_one_did() {
    loom::model(|| {
        let cell = StdArc::new(OwnerCell::new(Box::new(Log::default())));
        let owners: Vec<_> = (0..2)
            .map(|what| {
                let cell = StdArc::clone(&cell);
                thread::spawn(move || {
                    let Some(log) = cell.take() else { return 0 };
                    log.note(what);
                    cell.put(log).expect("only the owner puts it back");
                    1
                })
            })
            .collect();
        let mine = cell.take().map(|log| {
            let seen = log.get().len();
            cell.put(log).expect("only the owner puts it back");
            seen
        });
        assert!(mine.is_none_or(|seen| seen <= 2));
        let owned: usize = owners
            .into_iter()
            .map(|owner| owner.join().expect("it does not panic"))
            .sum();
        let log = cell.take().expect("every thread put it back");
        assert_eq!(log.get().len(), owned);
    });
}

/// Three threads, one permit: never two holders, and the next holder sees what the last one did.
/// Fails when: `take` is not Acquire or `give` is not Release; or when a permit is taken by an
/// addition that is undone.
#[test]
fn a_permit_has_one_holder_that_sees_the_writes_of_the_previous_one() {
    loom::model(|| {
        let (permits, log) = (StdArc::new(Permits::new(1)), Arc::new(Log::default()));
        let others: Vec<_> = (0..2)
            .map(|what| {
                let (permits, log) = (StdArc::clone(&permits), Arc::clone(&log));
                thread::spawn(move || {
                    let permit = permits.try_borrow();
                    permit.map_or(0, |_held| {
                        log.note(what);
                        1
                    })
                })
            })
            .collect();
        let mine = permits.try_acquire().map_or(0, |_held| {
            log.note(2);
            1
        });
        let noted: usize = others
            .into_iter()
            .map(|other| other.join().expect("it does not panic"))
            .sum();
        assert_eq!(log.get().len(), noted + mine);
        assert!(noted + mine > 0, "a free permit is not refused to all");
        assert_eq!(permits.held(), 0);
    });
}

/// Two threads, two permits, a limit that falls to one meanwhile: never more holders than the limit
/// in force, and all permits are returned.
/// Fails when: a permit is returned twice or never.
#[test]
fn a_falling_limit_loses_no_permit() {
    loom::model(|| {
        let permits = StdArc::new(Permits::new(2));
        let other = {
            let permits = StdArc::clone(&permits);
            thread::spawn(move || {
                let held = permits.try_borrow();
                permits.set_limit(1);
                drop(held);
            })
        };
        let mine = permits.try_borrow();
        assert!(permits.held() <= 2);
        if let Some(permit) = mine {
            permit.forget();
            drop(permits.adopt());
        }
        other.join().expect("it does not panic");
        assert_eq!((permits.held(), permits.limit()), (0, 1));
        assert!(permits.try_borrow().is_some());
    });
}
