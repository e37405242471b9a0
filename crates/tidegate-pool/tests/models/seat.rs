//! Models of one worker slot, and of the reserve of idle workers.

use std::sync::Arc as StdArc;

use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::thread;
use tidegate_core::Clock;
use tidegate_pool::internal::{Reserve, Seat, Slept};

use super::{Chair, Job, job};

/// One giver, one sleeping worker.
#[test]
fn a_job_is_never_slept_over() {
    loom::model(|| {
        let seat: Chair = StdArc::new(Seat::new());
        let giver = {
            let seat = StdArc::clone(&seat);
            thread::spawn(move || {
                if seat.give(job(7)).expect("it is empty") {
                    seat.wake();
                }
            })
        };
        let Slept::Given { job, .. } = seat.sleep(&Clock::system(), None) else {
            unreachable!("nobody pokes");
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
        let seat: Chair = StdArc::new(Seat::new());
        let others: Vec<_> = [true, false]
            .map(|gives| {
                let seat = StdArc::clone(&seat);
                thread::spawn(move || {
                    if !gives || seat.give(job(7)).expect("it is empty") {
                        seat.wake();
                    }
                })
            })
            .into();
        let mut taken = 0;
        while taken == 0 {
            if let Slept::Given { job, .. } = seat.sleep(&Clock::system(), None) {
                taken += job.get();
            }
        }
        for other in others {
            other.join().unwrap();
        }
        assert!(seat.try_take().is_none());
    });
}

/// A giver, a worker that falls asleep, and a thread that closes the slot: the job is refused, run
/// or left, and the closing thread knows which.
#[test]
fn a_seat_that_is_closed_leaves_its_job_to_one_side() {
    loom::model(|| {
        let seat: Chair = StdArc::new(Seat::new());
        let begun = StdArc::new(AtomicUsize::new(0));
        let worker = {
            let (seat, begun) = (StdArc::clone(&seat), StdArc::clone(&begun));
            thread::spawn(move || {
                let begin = |_: &Job| begun.store(1, Relaxed);
                match seat.sleep_with(&Clock::system(), None, begin) {
                    Slept::Given { job, .. } => job.get() == 7,
                    Slept::Closed => false,
                    Slept::Woken => unreachable!("it is closed before it is woken"),
                }
            })
        };
        let giver = {
            let seat = StdArc::clone(&seat);
            thread::spawn(move || match seat.give(job(7)) {
                Ok(asleep) => {
                    if asleep {
                        seat.wake();
                    }
                    true
                }
                Err(_) => false,
            })
        };
        let left = seat.close();
        let has_begun = begun.load(Relaxed) == 1;
        seat.wake();
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
        let seat: Chair = StdArc::new(Seat::new());
        let giver = {
            let seat = StdArc::clone(&seat);
            thread::spawn(move || {
                for number in 1..=2 {
                    let mut next = job(number);
                    while let Err(back) = seat.give(next) {
                        next = back;
                        thread::yield_now();
                    }
                }
            })
        };
        let mut taken = Vec::new();
        while taken.len() < 2 {
            match seat.try_take() {
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
        let reserve: StdArc<Reserve<Job>> = StdArc::new(Reserve::new(2));
        let seat: Chair = StdArc::new(Seat::new());
        assert!(reserve.put(&seat));
        let got = StdArc::new(AtomicUsize::new(0));
        let claimers: Vec<_> = (0..2)
            .map(|_| {
                let (reserve, got) = (StdArc::clone(&reserve), StdArc::clone(&got));
                thread::spawn(move || {
                    if let Some(seat) = reserve.claim() {
                        got.fetch_add(1, Relaxed);
                        seat.give(job(1)).map(drop).expect("alone with it");
                    }
                })
            })
            .collect();
        let left = reserve.withdraw(&seat);
        for claimer in claimers {
            claimer.join().unwrap();
        }
        assert_eq!(got.load(Relaxed) + usize::from(left), 1);
        assert_eq!(seat.try_take().is_some(), !left);
        assert_eq!((reserve.available(), StdArc::strong_count(&seat)), (0, 1));
    });
}

/// A worker enters the reserve repeatedly while another thread claims it.
#[test]
fn a_claim_sees_what_the_worker_did_before_it_sat_down() {
    loom::model(|| {
        let reserve: StdArc<Reserve<Job>> = StdArc::new(Reserve::new(1));
        let seat: Chair = StdArc::new(Seat::new());
        let claimer = {
            let reserve = StdArc::clone(&reserve);
            thread::spawn(move || {
                let Some(seat) = reserve.claim() else {
                    return false;
                };
                if seat.give(job(1)).expect("alone with it") {
                    seat.wake();
                }
                true
            })
        };
        assert!(reserve.put(&seat));
        let given = claimer.join().unwrap();
        assert_eq!(seat.try_take().is_some(), given);
        assert_eq!(reserve.withdraw(&seat), !given);
    });
}
