//! Models of one worker slot, and of the reserve of idle workers.

use std::sync::Arc as StdArc;

use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::thread;
use tidegate_core::Clock;
use tidegate_pool::internal::{ReservedWorkers, SlotWait, WorkerSlot};

use super::{Chair, Job, job};

/// One giver, one sleeping worker.
#[test]
fn a_job_is_never_slept_over() {
    loom::model(|| {
        let worker_slot: Chair = StdArc::new(WorkerSlot::new());
        let giver = {
            let worker_slot = StdArc::clone(&worker_slot);
            thread::spawn(move || {
                if worker_slot.give(job(7)).expect("it is empty") {
                    worker_slot.wake();
                }
            })
        };
        let SlotWait::Given { job, .. } = worker_slot.sleep(&Clock::system(), None) else {
            unreachable!("no thread wakes it");
        };
        assert_eq!(job.get(), 7);
        giver.join().unwrap();
    });
}

/// A giver, a thread that only wakes, and a sleeping worker: the job is taken once, whichever
/// thread woke the worker.
#[test]
fn a_poke_beside_a_job_loses_nothing() {
    loom::model(|| {
        let worker_slot: Chair = StdArc::new(WorkerSlot::new());
        let others: Vec<_> = [true, false]
            .map(|gives| {
                let worker_slot = StdArc::clone(&worker_slot);
                thread::spawn(move || {
                    if !gives || worker_slot.give(job(7)).expect("it is empty") {
                        worker_slot.wake();
                    }
                })
            })
            .into();
        let mut taken = 0;
        while taken == 0 {
            if let SlotWait::Given { job, .. } = worker_slot.sleep(&Clock::system(), None) {
                taken += job.get();
            }
        }
        for other in others {
            other.join().unwrap();
        }
        assert!(worker_slot.try_take().is_none());
    });
}

/// A giver, a worker that falls asleep, and a thread that closes the slot: the job is refused, run
/// or left, and the closing thread knows which.
#[test]
fn a_seat_that_is_closed_leaves_its_job_to_one_side() {
    let mut model = loom::model::Builder::new();
    // With three preemptions, the giver is preempted while it writes. The other two then wait for
    // it by yielding, and loom runs these two in turn for ever.
    model.preemption_bound = model.preemption_bound.map(|bound| bound.min(2));
    model.check(|| {
        let worker_slot: Chair = StdArc::new(WorkerSlot::new());
        let begun = StdArc::new(AtomicUsize::new(0));
        let worker = {
            let (worker_slot, begun) = (StdArc::clone(&worker_slot), StdArc::clone(&begun));
            thread::spawn(move || {
                let begin = |_: &Job| begun.store(1, Relaxed);
                match worker_slot.sleep_with(&Clock::system(), None, begin) {
                    SlotWait::Given { job, .. } => job.get() == 7,
                    SlotWait::Closed => false,
                    SlotWait::Woken => unreachable!("it is closed before it is woken"),
                }
            })
        };
        let giver = {
            let worker_slot = StdArc::clone(&worker_slot);
            thread::spawn(move || match worker_slot.give(job(7)) {
                Ok(asleep) => {
                    if asleep {
                        worker_slot.wake();
                    }
                    true
                }
                Err(_) => false,
            })
        };
        let left = worker_slot.close();
        let has_begun = begun.load(Relaxed) == 1;
        worker_slot.wake();
        let (ran, given) = (worker.join().unwrap(), giver.join().unwrap());
        assert!(left.is_none_or(|job| job.get() == 7 && !ran));
        assert_eq!(ran, has_begun);
        assert!(given || !ran);
    });
}

/// One thread fills the slot twice, one empties it: the second job never overwrites the first.
#[test]
fn a_seat_is_filled_again_only_when_it_is_empty() {
    loom::model(|| {
        let worker_slot: Chair = StdArc::new(WorkerSlot::new());
        let giver = {
            let worker_slot = StdArc::clone(&worker_slot);
            thread::spawn(move || {
                for number in 1..=2 {
                    let mut next = job(number);
                    while let Err(back) = worker_slot.give(next) {
                        next = back;
                        thread::yield_now();
                    }
                }
            })
        };
        let mut taken = Vec::new();
        while taken.len() < 2 {
            match worker_slot.try_take() {
                Some(job) => taken.push(job.get()),
                None => thread::yield_now(),
            }
        }
        giver.join().unwrap();
        assert_eq!(taken, [1, 2]);
    });
}

/// Two threads claim, and the worker itself wants to end: exactly one of them gets the slot.
#[test]
fn a_reserved_worker_is_claimed_once() {
    loom::model(|| {
        let reserve: StdArc<ReservedWorkers<Job>> = StdArc::new(ReservedWorkers::new(2));
        let worker_slot: Chair = StdArc::new(WorkerSlot::new());
        assert!(reserve.put(&worker_slot));
        let got = StdArc::new(AtomicUsize::new(0));
        let claimers: Vec<_> = (0..2)
            .map(|_| {
                let (reserve, got) = (StdArc::clone(&reserve), StdArc::clone(&got));
                thread::spawn(move || {
                    if let Some(worker_slot) = reserve.claim() {
                        got.fetch_add(1, Relaxed);
                        worker_slot.give(job(1)).map(drop).expect("alone with it");
                    }
                })
            })
            .collect();
        let left = reserve.withdraw(&worker_slot);
        for claimer in claimers {
            claimer.join().unwrap();
        }
        assert_eq!(got.load(Relaxed) + usize::from(left), 1);
        assert_eq!(worker_slot.try_take().is_some(), !left);
        assert_eq!(
            (reserve.available(), StdArc::strong_count(&worker_slot)),
            (0, 1)
        );
    });
}

/// A worker enters the reserve repeatedly while another thread claims it.
#[test]
fn a_claim_sees_what_the_worker_did_before_it_sat_down() {
    loom::model(|| {
        let reserve: StdArc<ReservedWorkers<Job>> = StdArc::new(ReservedWorkers::new(1));
        let worker_slot: Chair = StdArc::new(WorkerSlot::new());
        let claimer = {
            let reserve = StdArc::clone(&reserve);
            thread::spawn(move || {
                let Some(worker_slot) = reserve.claim() else {
                    return false;
                };
                if worker_slot.give(job(1)).expect("alone with it") {
                    worker_slot.wake();
                }
                true
            })
        };
        assert!(reserve.put(&worker_slot));
        let given = claimer.join().unwrap();
        assert_eq!(worker_slot.try_take().is_some(), given);
        assert_eq!(reserve.withdraw(&worker_slot), !given);
    });
}
