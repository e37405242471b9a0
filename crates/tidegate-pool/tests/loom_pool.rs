//! Models of a worker pool's words: seat, reserve and desk (`cargo xtask loom`).
//!
//! Bounds: at most three threads, at most three jobs, at most `LOOM_MAX_PREEMPTIONS` preemptions
//! per execution. A lost wakeup is a deadlock, which loom reports; a job that two threads see is
//! two accesses of one cell without an order, which it reports too.
//!
//! # Do they bite?
//!
//! Each of these changes, made by hand, fails the model named after it:
//!
//! | changed | fails |
//! |---|---|
//! | `Seat::give`: the last store relaxed; answers that nobody sleeps; `try_take_with`: exchange relaxed | `a_job_is_never_slept_over` |
//! | `Seat::sleep`: stores `ASLEEP` without a look whether a job came | the program, at once |
//! | `Seat::try_take_with`: store relaxed | `a_seat_is_filled_again_only_when_it_is_empty`, `a_seat_that_is_closed_leaves_its_job_to_one_side` |
//! | `Seat::try_take_with`: takes by load and store; `Seat::close`: relaxed | `a_seat_that_is_closed_leaves_its_job_to_one_side` |
//! | `Reserve::claim`: load and store instead of the swap; swap relaxed | `a_claim_beside_a_submission_strands_nothing` |
//! | `Turn::next`: sits down though jobs wait; `Turn::place`: queues though somebody is in reserve | `no_job_is_queued_while_a_worker_sleeps` |
//! | `Turn::arrived`: does not send the next one | `who_was_woken_sends_the_next_one` |
//! | `Turn::make_up`: sends nobody; `Turn::next`: takes the debt away though jobs wait | `a_wakeup_that_is_put_off_is_not_forgotten` |
//! | `Turn::again`: leaves though its seat was claimed | `a_worker_that_leaves_takes_no_job_with_it` |
//! | `Turn::relieve`: starts no thread | `a_job_whose_idle_worker_is_claimed_is_rescued` |
//! | the same, and `Turn::again`: leaves though jobs wait | `a_job_whose_idle_worker_leaves_is_rescued` |
#![cfg(tidegate_loom)]

use std::collections::VecDeque;
use std::sync::Arc as StdArc;

use loom::cell::Cell;
use loom::sync::Arc;
use loom::thread;
use tidegate_core::Clock;
use tidegate_pool::Growth;
use tidegate_pool::internal::{Desk, DeskLimits, Next, Placed, Seat, Sent, Slept, Work};

#[path = "models/desk.rs"]
mod desk;

#[path = "models/rescue.rs"]
mod rescue;

#[path = "models/seat.rs"]
mod seat;

/// A job whose cell loom watches, and whose loss it reports.
type Job = Arc<Cell<u32>>;

fn job(number: u32) -> Job {
    Arc::new(Cell::new(number))
}

/// Jobs with keys: what a queue with handles comes to.
#[derive(Default)]
struct Queue {
    jobs: VecDeque<(u32, Job)>,
}

impl Work<Job> for Queue {
    fn take(&mut self) -> Option<Job> {
        self.jobs.pop_front().map(|(_, job)| job)
    }

    fn len(&self) -> usize {
        self.jobs.len()
    }
}

type Pool = Desk<Job, Queue>;
type Chair = StdArc<Seat<Job>>;

fn pool(max: usize, reserved: usize) -> StdArc<Pool> {
    let limits = DeskLimits {
        core: 0,
        max,
        leased: 0,
        growth: Growth::ThreadsFirst,
    };
    StdArc::new(Desk::new(Queue::default(), limits, reserved))
}

/// Counts the threads before anybody comes, so that nothing has to be started.
fn seats(pool: &Pool, count: usize) -> Vec<Chair> {
    let mut turn = pool.turn();
    (0..count)
        .map(|_| {
            assert!(turn.count_thread());
            StdArc::new(Seat::new())
        })
        .collect()
}

/// Gives the pool a job: handed over or queued, as the desk says.
fn submit(pool: &Pool, number: u32) {
    let mut turn = pool.turn();
    match turn.place(job(number), true, false) {
        Placed::Handed(wake) => {
            drop(turn);
            drop(wake);
        }
        Placed::Queue(job) => turn.jobs.push_back((number, job)),
        Placed::Start(_) | Placed::Full(_) => unreachable!("every thread is there"),
    }
}

/// Two jobs, the first by a submitter that puts its wakeup off if there is somebody to wait for,
/// the second by another one that comes in between.
fn submit_patiently(pool: &Pool, numbers: [u32; 2]) {
    let mut turn = pool.turn();
    let Some(looks) = turn.may_put_off() else {
        drop(turn);
        return numbers.into_iter().for_each(|number| submit(pool, number));
    };
    turn.jobs.push_back((numbers[0], job(numbers[0])));
    turn.put_off();
    drop(turn);
    submit(pool, numbers[1]);
    for _ in 0..looks {
        thread::yield_now();
        if !pool.is_put_off() {
            return;
        }
    }
    let wake = pool.turn().make_up();
    drop(wake);
}

fn close(pool: &Pool) {
    let wakes = pool.turn().close();
    drop(wakes);
}

/// What a thread of a pool does, without a clock. Answers the sum of what it ran.
fn work(pool: &Pool, seat: &Chair) -> u32 {
    let mut sum = 0;
    while let Some(job) = next(pool, seat) {
        sum += job.get();
        job.set(0);
    }
    sum
}

fn next(pool: &Pool, seat: &Chair) -> Option<Job> {
    let next = pool.turn().next(seat);
    match next {
        Next::Run(job) => return Some(job),
        Next::Leave => return None,
        Next::Wait { .. } => {}
    }
    loop {
        match seat.sleep(&Clock::system(), None) {
            Slept::Given { job, asleep } => {
                if asleep {
                    let sent = pool.turn().arrived();
                    assert!(!matches!(sent, Some(Sent::Start)), "every thread is there");
                    drop(sent);
                }
                return Some(job);
            }
            Slept::Woken => {
                let again = pool.turn().again(seat, false);
                match again {
                    Next::Run(job) => return Some(job),
                    Next::Leave => return None,
                    Next::Wait { .. } => {}
                }
            }
            Slept::Closed => unreachable!("nobody is dismissed"),
        }
    }
}
