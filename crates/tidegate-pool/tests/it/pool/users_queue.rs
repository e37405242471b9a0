//! A queue of the user's own: it decides the order, may use its pool, and costs no job if it breaks
//! its contract.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tidegate_core::{ManualClock, OnUnhandled, RejectReason, Task};
use tidegate_pool::queue::{Job, JobKey, JobList, JobQueue, Popped};
use tidegate_pool::{JobHandle, PoolPolicy, WorkerPool};
use tidegate_testkit::{Counter, Gate, Log, Rng, rounds, until};

use super::{fixed, hold, release};
use crate::{SECOND, hits};

/// How a queue breaks its contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    LosesAJob,
    InventsAJob,
    CountsWrong,
    PanicsInPush,
    PanicsInPop,
    PanicsInLen,
    PanicsInRemove,
    RemovesNothing,
}

/// A queue that runs the newest job first, and breaks its contract once it has three jobs.
struct Faulty {
    jobs: JobList,
    fault: Fault,
    is_due: bool,
}

impl Faulty {
    fn new(fault: Fault) -> Self {
        Self {
            jobs: JobList::default(),
            fault,
            is_due: false,
        }
    }

    fn is(&self, fault: Fault) -> bool {
        self.is_due && self.fault == fault
    }
}

impl JobQueue for Faulty {
    fn push(&mut self, job: Job) -> JobKey {
        self.is_due |= self.jobs.len() == 2;
        assert!(!self.is(Fault::PanicsInPush), "on purpose");
        self.jobs.push_back(job)
    }

    fn pop(&mut self) -> Option<Popped> {
        assert!(!self.is(Fault::PanicsInPop), "on purpose");
        if self.is(Fault::LosesAJob) {
            drop(self.jobs.pop_front());
            return None;
        }
        if self.is(Fault::InventsAJob) {
            return Some(Popped::Run(Job::new(Task::new(|| panic!("never runs")))));
        }
        self.jobs.pop_back().map(Popped::Run)
    }

    fn remove(&mut self, key: JobKey) -> Option<Job> {
        assert!(!self.is(Fault::PanicsInRemove), "on purpose");
        if self.is(Fault::RemovesNothing) {
            return None;
        }
        self.jobs.remove(key)
    }

    fn displace(&mut self, _by: &Job) -> Option<Job> {
        self.jobs.pop_front()
    }

    fn len(&self) -> usize {
        assert!(!self.is(Fault::PanicsInLen), "on purpose");
        self.jobs.len() + usize::from(self.is(Fault::CountsWrong))
    }
}

/// Returns a hook for unhandled errors, and its log.
pub(super) fn heard() -> (OnUnhandled, Log<String>) {
    let log = Log::new();
    let heard = log.clone();
    let hook = OnUnhandled::new(move |_, what| heard.push(what.to_string()));
    (hook, log)
}

#[test]
fn a_queue_that_breaks_its_contract_is_named_and_no_job_is_lost() {
    for (fault, says) in [
        (Fault::LosesAJob, "it lost"),
        (Fault::InventsAJob, "a job that it does not have"),
        (Fault::CountsWrong, "its length is"),
        (Fault::PanicsInPush, "its `push` panicked: on purpose"),
        (Fault::PanicsInPop, "its `pop` panicked: on purpose"),
        (Fault::PanicsInLen, "its `len` panicked: on purpose"),
        (Fault::PanicsInRemove, "its `remove` panicked: on purpose"),
        (Fault::RemovesNothing, "its `remove` did not return the job"),
    ] {
        let clock = ManualClock::new();
        let (hook, errors) = heard();
        let pool = fixed(&clock, 1, 16).queue_of(Faulty::new(fault));
        let pool = pool.report_to(hook.clone()).build().unwrap();
        let (gate, log) = (hold(&pool), Log::new());
        let second = Arc::<Mutex<Option<JobHandle>>>::default();
        for number in 0..5 {
            let (log, removed) = (log.clone(), Arc::clone(&second));
            // The first job that runs removes the second one, of which the queue knows.
            let job = pool.enqueue(Task::new(move || {
                let removed = removed.lock().unwrap().take().and_then(|job| job.remove());
                assert_eq!(removed.is_some(), log.is_empty());
                log.push(number);
            }));
            if number == 1 {
                *second.lock().unwrap() = Some(job.unwrap());
            }
        }
        release(&clock, vec![gate]);
        let mut ran = log.take();
        ran.sort_unstable();
        assert_eq!(ran, [0, 2, 3, 4], "{fault:?}");
        hook.flush().unwrap();
        let error = errors.take().pop().unwrap();
        assert!(
            error.starts_with("the queue of pool `workers` failed") && error.contains(says),
            "{fault:?}: {error}"
        );
        assert!(errors.is_empty());
        assert_eq!(pool.submit(|| 7).unwrap().wait().unwrap(), 7);
        let report = pool.shutdown(SECOND).wait().unwrap();
        assert!(report.handed_back.is_empty() && report.stuck.is_empty());
    }
}

/// A queue whose `pop` waits for a gate, if there is one.
#[derive(Default)]
struct Blocks {
    jobs: JobList,
    gate: Arc<Mutex<Option<(Gate, Gate)>>>,
}

impl JobQueue for Blocks {
    fn push(&mut self, job: Job) -> JobKey {
        self.jobs.push_back(job)
    }

    fn pop(&mut self) -> Option<Popped> {
        let gates = self.gate.lock().unwrap().take();
        if let Some((arrived, go_on)) = gates {
            arrived.open();
            go_on.wait();
        }
        self.jobs.pop_front().map(Popped::Run)
    }

    fn remove(&mut self, key: JobKey) -> Option<Job> {
        self.jobs.remove(key)
    }

    fn displace(&mut self, _by: &Job) -> Option<Job> {
        self.jobs.pop_front()
    }

    fn len(&self) -> usize {
        self.jobs.len()
    }
}

#[test]
fn a_queue_that_blocks_is_left_behind_and_delays_no_call_of_the_pool() {
    let clock = ManualClock::new();
    let (hook, errors) = heard();
    let queue = Blocks::default();
    let (arrived, go_on, gates) = (Gate::new(), Gate::new(), Arc::clone(&queue.gate));
    let pool = fixed(&clock, 2, 4).queue_of(queue).report_to(hook.clone());
    let pool = pool.policy(PoolPolicy::DropOldest).build().unwrap();
    let held = [hold(&pool), hold(&pool)];
    *gates.lock().unwrap() = Some((arrived.clone(), go_on.clone()));
    let ran = Counter::new();
    for _ in 0..3 {
        pool.execute(hits(ran.clone())).unwrap();
    }
    held[0].open();
    arrived.wait();
    assert_eq!((pool.metrics().queued, pool.limits().queue), (2, 4));
    pool.execute(hits(ran.clone())).unwrap();
    held[1].open();
    until("the other thread waits for the queue", || {
        clock.next_deadline().is_some()
    });
    assert_eq!(ran.count(), 0);
    clock.jump(SECOND);
    ran.wait_for(4);
    hook.flush().unwrap();
    let error = errors.take().remove(0);
    assert!(error.contains("has not returned for 1s"), "{error}");
    let end = pool.shutdown(SECOND);
    go_on.open();
    let report = end.wait().unwrap();
    assert!(report.handed_back.is_empty());
    assert_eq!((ran.count(), pool.metrics().done), (4, 6));
}

/// A queue that uses its pool in each of its methods.
#[derive(Default)]
struct Reenters {
    jobs: JobList,
    pool: Arc<Mutex<Option<WorkerPool>>>,
    ran: Counter,
}

impl Reenters {
    fn use_pool(&self) {
        let pool = self.pool.lock().unwrap().clone();
        let Some(pool) = pool else { return };
        assert_eq!(pool.metrics().limits.max, 1);
        assert!(pool.limits().queue > 0 && !pool.dump().facts().is_empty());
        if self.ran.hit() <= 20 {
            let refused = pool.execute(|| ()).err();
            assert!(refused.is_none_or(|refused| refused.why() == RejectReason::Full));
        }
    }
}

impl JobQueue for Reenters {
    fn push(&mut self, job: Job) -> JobKey {
        self.use_pool();
        self.jobs.push_back(job)
    }

    fn pop(&mut self) -> Option<Popped> {
        self.use_pool();
        self.jobs.pop_front().map(Popped::Run)
    }

    fn remove(&mut self, key: JobKey) -> Option<Job> {
        self.use_pool();
        self.jobs.remove(key)
    }

    fn displace(&mut self, _by: &Job) -> Option<Job> {
        self.use_pool();
        self.jobs.pop_front()
    }

    fn len(&self) -> usize {
        self.use_pool();
        self.jobs.len()
    }
}

#[test]
fn a_queue_may_use_its_pool() {
    let clock = ManualClock::new();
    let (hook, errors) = heard();
    let queue = Reenters::default();
    let handle = Arc::clone(&queue.pool);
    let pool = fixed(&clock, 1, 4).queue_of(queue).report_to(hook.clone());
    let pool = pool.policy(PoolPolicy::DropOldest).build().unwrap();
    *handle.lock().unwrap() = Some(pool.clone());
    let gate = hold(&pool);
    let ran = Counter::new();
    for _ in 0..12 {
        pool.execute(hits(ran.clone())).unwrap();
    }
    release(&clock, vec![gate]);
    assert_eq!(pool.submit(|| 7).unwrap().wait().unwrap(), 7);
    hook.flush().unwrap();
    assert!(errors.is_empty(), "{:?}", errors.take());
    drop(handle.lock().unwrap().take());
    clock.settle();
    let metrics = pool.metrics();
    assert_eq!(metrics.accepted, metrics.done + metrics.displaced);
}

/// A queue that takes jobs out in no order.
struct Random(Vec<(u64, Job)>, Rng, u64);

impl JobQueue for Random {
    fn push(&mut self, job: Job) -> JobKey {
        self.2 += 1;
        self.0.push((self.2, job));
        JobKey(self.2)
    }

    fn pop(&mut self) -> Option<Popped> {
        let len = self.0.len();
        let job = (len > 0).then(|| self.0.swap_remove(self.1.index(len)).1)?;
        Some(match self.1.chance(0.05) {
            true => Popped::Shed(job),
            false => Popped::Run(job),
        })
    }

    fn remove(&mut self, key: JobKey) -> Option<Job> {
        let at = self.0.iter().position(|(one, _)| *one == key.0)?;
        Some(self.0.swap_remove(at).1)
    }

    fn displace(&mut self, _by: &Job) -> Option<Job> {
        let len = self.0.len();
        (len > 0).then(|| self.0.swap_remove(self.1.index(len)).1)
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

#[test]
fn each_job_runs_or_leaves_once_whatever_the_queue_chooses() {
    let mut rng = Rng::seed_from_env_or(23);
    for round in 0..rounds(20) {
        let (hook, errors) = heard();
        let pool = WorkerPool::builder("workers").core(3).max(3).reserved(1);
        let pool = pool.queue(16).policy(PoolPolicy::DropOldest);
        let queue = Random(Vec::new(), rng.fork(), 0);
        let pool = pool
            .queue_of(queue)
            .report_to(hook.clone())
            .build()
            .unwrap();
        let (ran, removed, accepted) = (Counter::new(), AtomicU64::new(0), Counter::new());
        thread::scope(|scope| {
            for _ in 0..3 {
                let (pool, ran, removed, accepted) = (&pool, &ran, &removed, &accepted);
                let mut rng = rng.fork();
                scope.spawn(move || {
                    for _ in 0..300 {
                        let Ok(job) = pool.enqueue(Task::new(hits(ran.clone()))) else {
                            continue;
                        };
                        accepted.hit();
                        if rng.chance(0.3) && job.remove().is_some() {
                            removed.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
            if round % 2 == 0 {
                accepted.wait_for(200);
                drop(pool.shutdown(Duration::ZERO));
            }
        });
        let report = pool.shutdown(60 * SECOND).wait().unwrap();
        until("the threads have ended", || pool.metrics().threads == 0);
        let metrics = pool.metrics();
        let back = report.handed_back.take().len() as u64;
        let gone = removed.load(Ordering::Relaxed) + metrics.displaced + metrics.shed;
        assert_eq!(ran.count() + back + gone, accepted.count());
        assert_eq!(
            (metrics.done, metrics.accepted),
            (ran.count(), accepted.count())
        );
        hook.flush().unwrap();
        assert!(errors.is_empty(), "{:?}", errors.take());
    }
}
