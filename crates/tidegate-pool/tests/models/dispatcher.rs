//! Models of the dispatcher: submitters, workers and their queue.

use std::sync::Arc as StdArc;

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use tidegate_core::Clock;
use tidegate_pool::internal::{SlotWait, WorkerStep};

use super::{close, job, next, pool, seats, submit, submit_patiently, work};

/// One worker, two submitters. Fails if a job is queued while the worker falls asleep.
#[test]
fn no_job_is_queued_while_a_worker_sleeps() {
    for reserved in [0, 1] {
        loom::model(move || {
            let pool = pool(1, reserved);
            let worker_slot = seats(&pool, 1).remove(0);
            let submitter = {
                let pool = StdArc::clone(&pool);
                thread::spawn(move || submit(&pool, 1))
            };
            let worker = {
                let pool = StdArc::clone(&pool);
                thread::spawn(move || work(&pool, &worker_slot))
            };
            submit(&pool, 2);
            submitter.join().unwrap();
            close(&pool);
            assert_eq!(worker.join().unwrap(), 3);
            assert_eq!(pool.tally().threads, 0);
        });
    }
}

/// Two workers, and two jobs that wait for each other. The job that was queued while a woken worker
/// was searching needs the other worker, or both jobs wait for ever.
#[test]
fn a_woken_worker_wakes_the_next_one() {
    for reserved in [0, 1] {
        loom::model(move || {
            let pool = pool(2, reserved);
            let meeting = Arc::new((Mutex::new(0), Condvar::new()));
            let workers: Vec<_> = seats(&pool, 2)
                .into_iter()
                .map(|worker_slot| {
                    let (pool, meeting) = (StdArc::clone(&pool), Arc::clone(&meeting));
                    thread::spawn(move || {
                        while let Some(job) = next(&pool, &worker_slot) {
                            assert!(job.get() > 0);
                            meet(&meeting);
                            close(&pool);
                        }
                    })
                })
                .collect();
            submit(&pool, 1);
            submit(&pool, 2);
            for worker in workers {
                worker.join().unwrap();
            }
        });
    }
}

/// A worker may be busy for ever, busy for a moment, or asleep. The submitter that defers a wake-up
/// performs it later, so that the two jobs meet.
#[test]
fn a_wakeup_that_is_put_off_is_not_forgotten() {
    loom::model(|| {
        let pool = pool(2, 0);
        let meeting = Arc::new((Mutex::new(0), Condvar::new()));
        let workers: Vec<_> = seats(&pool, 2)
            .into_iter()
            .map(|worker_slot| {
                let (pool, meeting) = (StdArc::clone(&pool), Arc::clone(&meeting));
                thread::spawn(move || {
                    while let Some(job) = next(&pool, &worker_slot) {
                        assert!(job.get() > 0);
                        meet(&meeting);
                        close(&pool);
                    }
                })
            })
            .collect();
        submit_patiently(&pool, [1, 2]);
        for worker in workers {
            worker.join().unwrap();
        }
    });
}

/// Waits until two threads are here.
fn meet(meeting: &(Mutex<u32>, Condvar)) {
    let mut here = meeting.0.lock().unwrap();
    *here += 1;
    meeting.1.notify_all();
    while *here < 2 {
        here = meeting.1.wait(here).unwrap();
    }
}

/// A claim without the lock, a submission with the lock, and one worker: both jobs run.
#[test]
fn a_claim_beside_a_submission_strands_nothing() {
    loom::model(|| {
        let pool = pool(1, 1);
        let worker_slot = seats(&pool, 1).remove(0);
        let claimer = {
            let pool = StdArc::clone(&pool);
            thread::spawn(move || match pool.claim(job(4)) {
                Ok(wake) => {
                    drop(wake);
                    4
                }
                Err(back) => {
                    assert_eq!(back.get(), 4);
                    0
                }
            })
        };
        let worker = {
            let pool = StdArc::clone(&pool);
            thread::spawn(move || work(&pool, &worker_slot))
        };
        submit(&pool, 1);
        let claimed = claimer.join().unwrap();
        close(&pool);
        assert_eq!(worker.join().unwrap(), 1 + claimed);
    });
}

/// A worker whose idle time is over, against a submission and a claim: either it ends without a
/// job, or it runs the job that it was given.
#[test]
fn a_worker_that_leaves_takes_no_job_with_it() {
    loom::model(|| {
        let pool = pool(1, 1);
        let worker_slot = seats(&pool, 1).remove(0);
        let sat = pool.turn().next_step(&worker_slot);
        assert!(matches!(sat, WorkerStep::Wait { .. }));
        let giver = {
            let pool = StdArc::clone(&pool);
            thread::spawn(move || match pool.claim(job(1)) {
                Ok(wake) => {
                    drop(wake);
                    true
                }
                Err(_) => false,
            })
        };
        let again = pool.turn().recheck_idle(&worker_slot, true);
        let ran = match again {
            WorkerStep::Leave => false,
            _ => matches!(
                worker_slot.sleep(&Clock::system(), None),
                SlotWait::Given { .. }
            ),
        };
        assert_eq!(giver.join().unwrap(), ran);
        assert!(worker_slot.try_take().is_none());
    });
}

/// A handle against the worker, for one queued job: exactly one of them gets it.
#[test]
fn a_removal_against_a_take_has_one_winner() {
    loom::model(|| {
        let pool = pool(1, 0);
        let worker_slot = seats(&pool, 1).remove(0);
        pool.turn().jobs.push_back((9, job(9)));
        let removed = Arc::new(Mutex::new(None));
        let remover = {
            let (pool, removed) = (StdArc::clone(&pool), Arc::clone(&removed));
            thread::spawn(move || {
                let mut turn = pool.turn();
                let at = turn.jobs.iter().position(|(key, _)| *key == 9);
                let job = at.and_then(|at| turn.jobs.remove(at));
                drop(turn);
                *removed.lock().unwrap() = job;
            })
        };
        let closer = {
            let pool = StdArc::clone(&pool);
            thread::spawn(move || close(&pool))
        };
        let ran = work(&pool, &worker_slot);
        remover.join().unwrap();
        closer.join().unwrap();
        let removed = removed.lock().unwrap().take();
        assert_eq!(ran == 9, removed.is_none());
        assert_eq!(removed.map_or(9, |(_, job)| job.get()), 9);
    });
}
