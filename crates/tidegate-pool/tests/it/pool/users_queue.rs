//! A queue of the user's own: it decides the order, and its pool ends if it breaks its contract.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tidegate_core::{CancelToken, ManualClock, OnUnhandled, RejectReason, Task};
use tidegate_pool::queue::{Job, JobKey, JobList, JobQueue, Popped};
use tidegate_pool::{DisplacedError, PoolPolicy, WorkerPool};
use tidegate_testkit::{Bomb, Counter, Log, Rng, begins, rounds, until};

use super::{fixed, hold};
use crate::SECOND;

/// How a queue breaks its contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Breach {
    LosesAJob,
    InventsAJob,
    RemovesNothing,
    PanicsInPush,
    PanicsInPop,
    PanicsInRemove,
    PanicsInDisplace,
}

/// A queue that breaks its contract once it has three jobs.
struct Faulty {
    jobs: JobList,
    breach: Breach,
    is_due: bool,
}

impl Faulty {
    fn is(&self, breach: Breach) -> bool {
        self.is_due && self.breach == breach
    }
}

impl JobQueue for Faulty {
    fn push(&mut self, job: Job) -> JobKey {
        self.is_due |= self.jobs.len() == 2;
        assert!(!self.is(Breach::PanicsInPush), "on purpose");
        self.jobs.push_back(job)
    }

    fn pop(&mut self) -> Option<Popped> {
        assert!(!self.is(Breach::PanicsInPop), "on purpose");
        if self.is(Breach::LosesAJob) {
            return None;
        }
        if self.is(Breach::InventsAJob) {
            return Some(Popped::Run(Job::new(Task::new(|| panic!("never runs")))));
        }
        self.jobs.pop_front().map(Popped::Run)
    }

    fn remove(&mut self, key: JobKey) -> Option<Job> {
        assert!(!self.is(Breach::PanicsInRemove), "on purpose");
        if self.is(Breach::RemovesNothing) {
            return None;
        }
        self.jobs.remove(key)
    }

    fn displace(&mut self, _by: &Job) -> Option<Job> {
        assert!(!self.is(Breach::PanicsInDisplace), "on purpose");
        self.jobs.pop_front()
    }
}

fn heard() -> (OnUnhandled, Log<String>) {
    let (log, heard) = Log::pair();
    let hook = OnUnhandled::new(move |_, what| heard.push(what.to_string()));
    (hook, log)
}

#[test]
fn a_queue_that_breaks_its_contract_closes_its_pool_with_one_error_that_names_it() {
    for (breach, says) in [
        (Breach::LosesAJob, "it lost 4 of its jobs"),
        (
            Breach::InventsAJob,
            "it returned a job that it does not have",
        ),
        (
            Breach::RemovesNothing,
            "its `remove` did not return the job",
        ),
        (Breach::PanicsInPush, "its `push` panicked: on purpose"),
        (Breach::PanicsInPop, "its `pop` panicked: on purpose"),
        (Breach::PanicsInRemove, "its `remove` panicked: on purpose"),
        (
            Breach::PanicsInDisplace,
            "its `displace` panicked: on purpose",
        ),
    ] {
        let clock = ManualClock::new();
        let (hook, errors) = heard();
        let queue = Faulty {
            jobs: JobList::default(),
            breach,
            is_due: false,
        };
        let pool = fixed(&clock, 2, 4).queue_of(queue).report_to(hook.clone());
        let pool = pool.policy(PoolPolicy::DropOldest).build().unwrap();
        let (gate, still) = (hold(&pool), hold(&pool));
        let mut jobs: Vec<_> = Vec::new();
        for _ in 0..4 {
            let (job, completion) = pool.job(|| panic!("must not run"));
            match pool.enqueue(job) {
                Ok(handle) => jobs.push((handle, completion)),
                Err(refused) => assert_eq!(
                    (refused.why(), breach),
                    (RejectReason::Closed, Breach::PanicsInPush)
                ),
            }
        }
        match breach {
            Breach::PanicsInRemove | Breach::RemovesNothing => {
                let (handle, _) = jobs.remove(0);
                assert!(handle.remove().is_some(), "it has left in any case");
            }
            Breach::PanicsInDisplace => {
                assert_eq!(pool.execute(|| ()).unwrap_err().why(), RejectReason::Full);
            }
            _ => gate.open(),
        }
        for (_, completion) in jobs {
            let error = completion.wait().unwrap_err().failure().unwrap();
            assert!(error.downcast_ref::<DisplacedError>().is_some(), "{error}");
        }
        hook.flush().unwrap();
        let part = format!("the queue of pool `workers` failed: {says}");
        let error = errors.take().pop().unwrap();
        assert!(error.starts_with(&part), "{breach:?}: {error}");
        assert!(error.ends_with("; the pool is closed"), "{error}");
        assert_eq!(pool.execute(|| ()).unwrap_err().why(), RejectReason::Closed);
        let failed = pool.failed_part().unwrap_or_default();
        begins(failed, format!("the queue: {says}"));
        gate.open();
        until("what runs goes on", || pool.metrics().done == 1);
        still.open();
        let report = pool.termination().wait().unwrap();
        assert!(report.handed_back.is_empty() && report.stuck.is_empty());
        let metrics = pool.metrics();
        let gone = metrics.displaced + metrics.removed;
        assert_eq!(metrics.accepted, metrics.done + gone, "{breach:?}");
        assert!(errors.is_empty(), "it is said once");
    }
}

#[test]
fn a_shutdown_of_a_pool_whose_queue_fails_hands_its_jobs_back() {
    let clock = ManualClock::new();
    let (hook, errors) = heard();
    let queue = Faulty {
        jobs: JobList::default(),
        breach: Breach::PanicsInPop,
        is_due: false,
    };
    let pool = fixed(&clock, 1, 4).queue_of(queue).report_to(hook.clone());
    let pool = pool.build().unwrap();
    let (gate, ran) = (hold(&pool), Counter::new());
    for _ in 0..4 {
        pool.execute(ran.hits()).unwrap();
    }
    let report = pool.shutdown(Duration::ZERO).wait().unwrap();
    report.handed_back.take().into_iter().for_each(Task::run);
    assert_eq!(ran.count(), 4);
    gate.open();
    hook.flush().unwrap();
    assert_eq!(errors.len(), 1, "{:?}", errors.take());
}

/// A token whose last drop uses the pool and panics.
struct UsesPool(WorkerPool, Counter);

impl Drop for UsesPool {
    fn drop(&mut self) {
        let _ = (self.0.metrics(), self.0.execute(|| ()).is_ok());
        self.1.hit();
        drop(Bomb::new());
    }
}

#[test]
fn what_goes_with_a_failed_queue_may_use_the_pool_and_panic_when_it_is_dropped() {
    let clock = ManualClock::new();
    let (hook, _errors) = heard();
    let queue = Faulty {
        jobs: JobList::default(),
        breach: Breach::PanicsInPush,
        is_due: false,
    };
    let pool = fixed(&clock, 1, 9).queue_of(queue).report_to(hook);
    let pool = pool.build().unwrap();
    let (gate, drops) = (hold(&pool), Counter::new());
    for _ in 0..3 {
        let (token, used) = (CancelToken::new(), UsesPool(pool.clone(), drops.clone()));
        token.on_cancel(move || drop(used)).forget();
        let used = UsesPool(pool.clone(), drops.clone());
        let job = Job::new(Task::new(move || drop(used))).token(&token);
        drop(pool.enqueue(job).unwrap());
    }
    drops.wait_for(6);
    gate.open();
    pool.termination().wait().unwrap();
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
                        let Ok(job) = pool.enqueue(Task::new(ran.hits())) else {
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
