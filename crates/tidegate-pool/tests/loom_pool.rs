//! Models of a worker pool's atomic words: worker slot, reserve and dispatcher (`cargo xtask
//! loom`).
//!
//! Bounds: at most three threads, at most three jobs, at most `LOOM_MAX_PREEMPTIONS` preemptions
//! per execution. A lost wake-up is a deadlock, which loom reports. A job that two threads access
//! is an unordered access to one cell, which loom also reports.
//!
//! # Mutations that the models detect
//!
//! Each of these changes, made by hand, fails the model named after it:
//!
//! * `WorkerSlot::give`: last store relaxed; or returns that the worker is awake. `try_take_with`:
//!   exchange relaxed. Fails `a_job_is_never_slept_over`.
//! * `WorkerSlot::sleep`: stores `ASLEEP` without a check whether a job came. Fails the program, at
//!   once.
//! * `WorkerSlot::try_take_with`: store relaxed. Fails
//!   `a_seat_is_filled_again_only_when_it_is_empty` and
//!   `a_seat_that_is_closed_leaves_its_job_to_one_side`.
//! * `WorkerSlot::try_take_with`: takes by load and store. `WorkerSlot::close`: relaxed. Fails
//!   `a_seat_that_is_closed_leaves_its_job_to_one_side`.
//! * `ReservedWorkers::claim`: load and store instead of the swap; swap relaxed. Fails
//!   `a_claim_beside_a_submission_strands_nothing`.
//! * `DispatchGuard::next_step`: the worker becomes idle although jobs are queued.
//!   `DispatchGuard::place`: queues although a worker is reserved. Fails
//!   `no_job_is_queued_while_a_worker_sleeps`.
//! * `DispatchGuard::woken_worker_arrived`: does not send the next worker. Fails
//!   `a_woken_worker_wakes_the_next_one`.
//! * `DispatchGuard::perform_deferred_wake`: sends no worker. `DispatchGuard::next_step`: clears
//!   the deferred wake-up although jobs are queued. Fails
//!   `a_wakeup_that_is_put_off_is_not_forgotten`.
//! * `DispatchGuard::recheck_idle`: the worker ends although its slot was claimed. Fails
//!   `a_worker_that_leaves_takes_no_job_with_it`.
//! * `DispatchGuard::send_worker`: starts no thread. Fails
//!   `a_job_whose_idle_worker_is_claimed_is_rescued`.
//! * The same, and `DispatchGuard::recheck_idle`: the worker ends although jobs are queued. Fails
//!   `a_job_whose_idle_worker_leaves_is_rescued`.
#![cfg(tidegate_loom)]

use std::collections::VecDeque;
use std::sync::Arc as StdArc;

use loom::cell::Cell;
use loom::sync::Arc;
use loom::thread;
use tidegate_core::Clock;
use tidegate_pool::Growth;
use tidegate_pool::internal::{
    Dispatch, DispatchLimits, Dispatcher, JobSource, SlotWait, WorkerSlot, WorkerStep, WorkerWanted,
};

#[path = "models/dispatcher.rs"]
mod dispatcher;

#[path = "models/rescue.rs"]
mod rescue;

#[path = "models/worker_slot.rs"]
mod worker_slot;

/// A job whose cell loom watches. Loom also reports if it is leaked.
type Job = Arc<Cell<u32>>;

fn job(number: u32) -> Job {
    Arc::new(Cell::new(number))
}

/// A queue of jobs with keys, like a queue with job handles.
#[derive(Default)]
struct Queue {
    jobs: VecDeque<(u32, Job)>,
}

impl JobSource<Job> for Queue {
    fn take(&mut self) -> Option<Job> {
        self.jobs.pop_front().map(|(_, job)| job)
    }

    fn len(&self) -> usize {
        self.jobs.len()
    }
}

type Pool = Dispatcher<Job, Queue>;
type Chair = StdArc<WorkerSlot<Job>>;

fn pool(max: usize, reserved: usize) -> StdArc<Pool> {
    let limits = DispatchLimits {
        core: 0,
        max,
        leased: 0,
        growth: Growth::ThreadsFirst,
    };
    StdArc::new(Dispatcher::new(Queue::default(), limits, reserved))
}

/// Counts the threads in advance, so that no thread has to be started.
fn seats(pool: &Pool, count: usize) -> Vec<Chair> {
    let mut turn = pool.turn();
    (0..count)
        .map(|_| {
            assert!(turn.count_thread());
            StdArc::new(WorkerSlot::new())
        })
        .collect()
}

/// Submits a job: hands it over or queues it, as the dispatcher decides.
fn submit(pool: &Pool, number: u32) {
    let mut turn = pool.turn();
    match turn.place(job(number), true, false) {
        Dispatch::Handed(wake) => {
            drop(turn);
            drop(wake);
        }
        Dispatch::Queue(job) => turn.jobs.push_back((number, job)),
        Dispatch::Start(_) | Dispatch::Full(_) => unreachable!("every thread is there"),
    }
}

/// Submits two jobs. The first submitter defers its wake-up if a worker is busy; the second
/// submitter comes in between.
fn submit_patiently(pool: &Pool, numbers: [u32; 2]) {
    let mut turn = pool.turn();
    let Some(checks) = turn.may_defer_wake() else {
        drop(turn);
        return numbers.into_iter().for_each(|number| submit(pool, number));
    };
    turn.jobs.push_back((numbers[0], job(numbers[0])));
    turn.defer_wake();
    drop(turn);
    submit(pool, numbers[1]);
    for _ in 0..checks {
        thread::yield_now();
        if !pool.is_wake_deferred() {
            return;
        }
    }
    let wake = pool.turn().perform_deferred_wake();
    drop(wake);
}

fn close(pool: &Pool) {
    let wakes = pool.turn().close();
    drop(wakes);
}

/// Acts as a worker thread, without a clock. Returns the sum of the jobs that it ran.
fn work(pool: &Pool, worker_slot: &Chair) -> u32 {
    let mut sum = 0;
    while let Some(job) = next(pool, worker_slot) {
        sum += job.get();
        job.set(0);
    }
    sum
}

fn next(pool: &Pool, worker_slot: &Chair) -> Option<Job> {
    let next = pool.turn().next_step(worker_slot);
    match next {
        WorkerStep::Run(job) => return Some(job),
        WorkerStep::Leave => return None,
        WorkerStep::Wait { .. } => {}
    }
    loop {
        match worker_slot.sleep(&Clock::system(), None) {
            SlotWait::Given { job, asleep } => {
                if asleep {
                    let sent = pool.turn().woken_worker_arrived();
                    assert!(
                        !matches!(sent, Some(WorkerWanted::Start)),
                        "every thread is there"
                    );
                    drop(sent);
                }
                return Some(job);
            }
            SlotWait::Woken => {
                let again = pool.turn().recheck_idle(worker_slot, false);
                match again {
                    WorkerStep::Run(job) => return Some(job),
                    WorkerStep::Leave => return None,
                    WorkerStep::Wait { .. } => {}
                }
            }
            SlotWait::Closed => unreachable!("no worker is dismissed"),
        }
    }
}
