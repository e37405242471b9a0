//! A queue of the user's own that blocks, until the test opens a gate: against each end of the pool,
//! a resize and further jobs. Each job runs or is handed back once, and no end waits for the queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate_core::{ManualClock, Task};
use tidegate_pool::queue::{Job, JobKey, JobList, JobQueue, Popped};
use tidegate_pool::{PoolLimits, WorkerPool};
use tidegate_testkit::{Counter, DropCount, Gate, until};

use super::users_queue::heard;
use super::{fixed, hold};
use crate::{SECOND, hits};

/// The part of the queue that blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blocked {
    Push,
    Pop,
    Len,
    Drop,
}

const METHODS: [Blocked; 3] = [Blocked::Push, Blocked::Pop, Blocked::Len];

/// First in, first out. One part of it waits for a gate, once it is armed.
struct Gated {
    jobs: JobList,
    blocked: Blocked,
    gates: Gates,
}

#[derive(Clone, Default)]
struct Gates {
    is_armed: Arc<AtomicBool>,
    inside: Gate,
    go_on: Gate,
}

impl Gated {
    fn pass(&self, part: Blocked) {
        if part == self.blocked && self.gates.is_armed.load(Ordering::SeqCst) {
            self.gates.inside.open();
            self.gates.go_on.wait();
        }
    }
}

impl JobQueue for Gated {
    fn push(&mut self, job: Job) -> JobKey {
        self.pass(Blocked::Push);
        self.jobs.push_back(job)
    }

    fn pop(&mut self) -> Option<Popped> {
        self.pass(Blocked::Pop);
        let breaks = self.blocked == Blocked::Drop && self.gates.is_armed.load(Ordering::SeqCst);
        assert!(!breaks, "on purpose");
        self.jobs.pop_front().map(Popped::Run)
    }

    fn remove(&mut self, key: JobKey) -> Option<Job> {
        self.jobs.remove(key)
    }

    fn displace(&mut self, _by: &Job) -> Option<Job> {
        self.jobs.pop_front()
    }

    fn len(&self) -> usize {
        self.pass(Blocked::Len);
        self.jobs.len()
    }
}

impl Drop for Gated {
    fn drop(&mut self) {
        self.pass(Blocked::Drop);
    }
}

/// A pool of `threads` threads, of which one is inside its queue for the first of `queued` jobs.
/// The others are idle.
struct Stuck {
    clock: ManualClock,
    pool: WorkerPool,
    gates: Gates,
    ran: Counter,
    dropped: Counter,
}

fn stuck(blocked: Blocked, threads: usize, queued: usize) -> Stuck {
    let (clock, gates) = (ManualClock::new(), Gates::default());
    let queue = Gated {
        jobs: JobList::default(),
        blocked,
        gates: gates.clone(),
    };
    let (hook, _errors) = heard();
    let pool = fixed(&clock, threads, 8).queue_of(queue).report_to(hook);
    let pool = pool.build().unwrap();
    let held: Vec<_> = (0..threads).map(|_| hold(&pool)).collect();
    let (ran, dropped) = (Counter::new(), Counter::new());
    for _ in 0..queued {
        let (ran, held) = (ran.clone(), DropCount::new(&dropped));
        let job = move || {
            ran.hit();
            drop(held);
        };
        pool.execute_task(Task::named("queued", job)).unwrap();
    }
    gates.is_armed.store(true, Ordering::SeqCst);
    held[0].open();
    gates.inside.wait();
    held.iter().for_each(Gate::open);
    until("the other threads are idle", || pool.metrics().busy == 1);
    Stuck {
        clock,
        pool,
        gates,
        ran,
        dropped,
    }
}

#[test]
fn a_shutdown_does_not_wait_for_a_queue_that_blocks() {
    for blocked in METHODS {
        for timeout in [Duration::ZERO, 60 * SECOND] {
            let stuck = stuck(blocked, 1, 3);
            let end = stuck.pool.shutdown(timeout);
            stuck.clock.jump(timeout);
            until("the pool has ended", || end.is_done());
            let report = end.wait().unwrap();
            let thread = report.stuck.first().expect("the thread in the queue");
            assert!(thread.task.contains("Queue"), "{thread:?}");
            let back = report.handed_back.take();
            assert_eq!((back.len(), stuck.ran.count()), (3, 0), "{blocked:?}");
            back.into_iter().take(2).for_each(Task::run);
            assert_eq!((stuck.ran.count(), stuck.dropped.count()), (2, 3));
            // The queue returns jobs that have left, and its thread ends.
            stuck.gates.go_on.open();
            until("its thread has ended", || stuck.pool.metrics().threads == 0);
            assert_eq!((stuck.ran.count(), stuck.dropped.count()), (2, 3));
            assert!(stuck.pool.handed_back().is_empty(), "{blocked:?}");
        }
    }
}

#[test]
fn jobs_of_a_pool_without_handles_run_when_its_queue_goes_on() {
    for blocked in METHODS {
        let stuck = stuck(blocked, 1, 3);
        let end = stuck.pool.termination();
        drop(stuck.pool);
        assert!(!end.is_done());
        stuck.gates.go_on.open();
        let report = end.wait().unwrap();
        assert!(report.stuck.is_empty() && report.handed_back.is_empty());
        assert_eq!((stuck.ran.count(), stuck.dropped.count()), (3, 3));
    }
}

#[test]
fn a_job_that_waits_for_a_blocked_queue_runs_at_the_next_submission() {
    for blocked in METHODS {
        let stuck = stuck(blocked, 2, 1);
        let other = Counter::new();
        stuck.clock.jump(SECOND);
        // The other thread is idle, so this job does not go through the queue.
        stuck.pool.execute(hits(other.clone())).unwrap();
        stuck.ran.wait_for(1);
        other.wait_for(1);
        stuck.gates.go_on.open();
        let report = stuck.pool.shutdown(60 * SECOND).wait().unwrap();
        assert!(report.stuck.is_empty() && report.handed_back.is_empty());
        assert_eq!((stuck.ran.count(), other.count()), (1, 1), "{blocked:?}");
    }
}

#[test]
fn a_job_that_waits_for_a_blocked_queue_runs_before_the_pool_ends() {
    for blocked in METHODS {
        let stuck = stuck(blocked, 2, 1);
        let end = stuck.pool.shutdown(60 * SECOND);
        stuck.clock.jump(30 * SECOND);
        stuck.ran.wait_for(1);
        until("the other thread has ended", || {
            stuck.pool.metrics().threads == 1
        });
        assert!(!end.is_done(), "the queue still holds a thread");
        stuck.clock.jump(30 * SECOND);
        let report = end.wait().unwrap();
        assert_eq!((report.stuck.len(), report.handed_back.len()), (1, 0));
        stuck.gates.go_on.open();
        until("its thread has ended", || stuck.pool.metrics().threads == 0);
        assert_eq!(stuck.ran.count(), 1, "{blocked:?}");
    }
}

#[test]
fn a_resize_gives_jobs_a_thread_while_the_queue_blocks() {
    for blocked in METHODS {
        let stuck = stuck(blocked, 1, 3);
        let limits = stuck.pool.limits();
        let (core, max) = (2, 2);
        let wider = PoolLimits {
            core,
            max,
            ..limits
        };
        stuck.pool.resize(wider).unwrap();
        until("the queue is given up", || {
            stuck.clock.jump(SECOND);
            stuck.ran.count() == 3
        });
        stuck.pool.resize(limits).unwrap();
        stuck.gates.go_on.open();
        until("the surplus thread has ended", || {
            stuck.pool.metrics().threads == 1
        });
        assert_eq!(stuck.pool.submit(|| 7).unwrap().wait().unwrap(), 7);
        assert_eq!((stuck.ran.count(), stuck.dropped.count()), (3, 3));
    }
}

#[test]
fn a_job_does_not_wait_for_the_drop_of_a_queue_that_is_given_up() {
    let (clock, gates) = (ManualClock::new(), Gates::default());
    let queue = Gated {
        jobs: JobList::default(),
        blocked: Blocked::Drop,
        gates: gates.clone(),
    };
    let (hook, errors) = heard();
    let pool = fixed(&clock, 1, 8).queue_of(queue).report_to(hook.clone());
    let pool = pool.build().unwrap();
    let held = hold(&pool);
    let (ran, last) = (Counter::new(), Counter::new());
    pool.execute(hits(ran.clone())).unwrap();
    pool.execute(hits(last.clone())).unwrap();
    gates.is_armed.store(true, Ordering::SeqCst);
    held.open();
    gates.inside.wait();
    assert_eq!((ran.count(), last.count()), (1, 0), "its thread is busy");
    // Another thread is not kept from the jobs.
    let limits = pool.limits();
    let (core, max) = (2, 2);
    pool.resize(PoolLimits {
        core,
        max,
        ..limits
    })
    .unwrap();
    last.wait_for(1);
    gates.go_on.open();
    pool.shutdown(60 * SECOND).wait().unwrap();
    hook.flush().unwrap();
    let errors = errors.take();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("its `pop` panicked"), "{errors:?}");
}
