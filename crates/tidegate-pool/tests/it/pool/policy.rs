//! Policies for a job that gets neither a thread nor a place in the queue.

use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};

use tidegate_core::{CancelToken, ManualClock, RejectReason, Rejected, Task};
use tidegate_pool::queue::{Job, JobKey, JobList, JobQueue, Popped};
use tidegate_pool::{DisplacedError, PoolPolicy, WorkerPool};
use tidegate_promise::WaitError;
use tidegate_testkit::{Counter, Log, until};

use super::{fixed, hold, release};
use crate::SECOND;

/// Creates a pool with one thread and a queue of one job.
fn tight(clock: &ManualClock, policy: PoolPolicy) -> WorkerPool {
    fixed(clock, 1, 1).policy(policy).build().unwrap()
}

fn backoff(attempts: u32) -> PoolPolicy {
    PoolPolicy::Backoff {
        attempts,
        pause: SECOND,
    }
}

/// Advances the clock until the waiting thread has returned.
fn turn_until_finished<T>(clock: &ManualClock, waiting: &ScopedJoinHandle<'_, T>) {
    until("the waiting thread has returned", || {
        let finished = waiting.is_finished();
        if !finished {
            clock.jump(SECOND / 8);
        }
        finished
    });
}

#[test]
fn fail_gives_the_job_back_and_it_can_run() {
    let clock = ManualClock::new();
    let pool = tight(&clock, PoolPolicy::Fail);
    let gate = hold(&pool);
    pool.execute(|| ()).unwrap();
    let ran = Counter::new();
    let refused = pool.execute(ran.hits()).unwrap_err();
    assert_eq!(refused.why(), RejectReason::Full);
    refused.into_inner().run();
    assert_eq!((ran.count(), pool.metrics().refused), (1, 1));
    release(&clock, vec![gate]);
}

#[test]
fn caller_runs_runs_it_here() {
    let clock = ManualClock::new();
    let pool = tight(&clock, PoolPolicy::CallerRuns);
    let gate = hold(&pool);
    pool.execute(|| ()).unwrap();
    let answer = pool.submit(|| thread::current().id()).unwrap();
    assert_eq!(answer.wait().unwrap(), thread::current().id());
    pool.execute(|| panic!("contained")).unwrap();
    let metrics = pool.metrics();
    assert_eq!(
        (metrics.caller_ran, metrics.panics, metrics.refused),
        (2, 1, 0)
    );
    release(&clock, vec![gate]);
}

#[test]
fn drop_oldest_displaces_the_oldest_and_says_so() {
    let clock = ManualClock::new();
    let pool = tight(&clock, PoolPolicy::DropOldest);
    let gate = hold(&pool);
    let first = pool.submit(|| 1).unwrap();
    let second = pool.submit(|| 2).unwrap();
    match first.wait() {
        Err(WaitError::Failed(cause)) => {
            assert!(cause.downcast_ref::<DisplacedError>().is_some());
            assert!(cause.to_string().contains("the job was displaced"));
        }
        other => panic!("unexpected: {other:?}"),
    }
    release(&clock, vec![gate]);
    assert_eq!(second.wait().unwrap(), 2);
    assert_eq!(pool.metrics().displaced, 1);
}

#[test]
fn drop_oldest_without_a_queue_refuses() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 0).policy(PoolPolicy::DropOldest);
    let pool = pool.build().unwrap();
    let gate = hold(&pool);
    assert_eq!(pool.execute(|| ()).unwrap_err().why(), RejectReason::Full);
    release(&clock, vec![gate]);
}

/// A queue in which less critical jobs make room for more critical ones.
#[derive(Default)]
struct ByClass(Vec<(u64, Job)>, u64);

impl JobQueue for ByClass {
    fn push(&mut self, job: Job) -> JobKey {
        self.1 += 1;
        self.0.push((self.1, job));
        JobKey(self.1)
    }

    fn pop(&mut self) -> Option<Popped> {
        let best = (0..self.0.len()).max_by_key(|at| self.0[*at].1.criticality())?;
        Some(Popped::Run(self.0.remove(best).1))
    }

    fn remove(&mut self, key: JobKey) -> Option<Job> {
        let at = self.0.iter().position(|(one, _)| *one == key.0)?;
        Some(self.0.remove(at).1)
    }

    fn displace(&mut self, by: &Job) -> Option<Job> {
        let least = (0..self.0.len()).min_by_key(|at| self.0[*at].1.criticality())?;
        (self.0[least].1.criticality() < by.criticality()).then(|| self.0.remove(least).1)
    }
}

#[test]
fn a_queue_decides_which_job_displaces_which() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 2).queue_of(ByClass::default());
    let pool = pool.policy(PoolPolicy::DropOldest).build().unwrap();
    let (gate, log) = (hold(&pool), Log::new());
    let job = |class| Job::new(Task::new(log.pushes(class))).with_criticality(class);
    pool.enqueue(job(2)).unwrap();
    pool.enqueue(job(1)).unwrap();
    pool.enqueue(job(3)).unwrap();
    let refused = pool.enqueue(job(0)).unwrap_err();
    assert_eq!(refused.into_inner().criticality(), 0);
    release(&clock, vec![gate]);
    log.assert_order(&[3, 2]);
}

#[test]
fn backoff_pauses_and_succeeds_when_room_appears() {
    let clock = ManualClock::new();
    let pool = tight(&clock, backoff(5));
    let gate = hold(&pool);
    pool.execute(|| ()).unwrap();
    let ran = Counter::new();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| pool.execute(ran.hits()));
        for _ in 0..3 {
            clock.await_sleepers(1);
            clock.jump(SECOND);
        }
        gate.open();
        until("no job is queued", || pool.metrics().queued == 0);
        turn_until_finished(&clock, &waiting);
        waiting.join().unwrap().unwrap();
    });
    ran.wait_for(1);
}

#[test]
fn backoff_gives_the_job_back_after_its_attempts() {
    let clock = ManualClock::new();
    let pool = tight(&clock, backoff(3));
    let gate = hold(&pool);
    pool.execute(|| ()).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| pool.execute(|| ()));
        turn_until_finished(&clock, &waiting);
        assert_eq!(
            waiting.join().unwrap().unwrap_err().why(),
            RejectReason::Full
        );
    });
    assert!(clock.nanos() >= 3_000_000_000, "three pauses");
    release(&clock, vec![gate]);
}

#[test]
fn a_token_ends_a_backoff() {
    let clock = ManualClock::new();
    let pool = tight(&clock, backoff(1_000_000));
    let gate = hold(&pool);
    pool.execute(|| ()).unwrap();
    let token = CancelToken::new();
    thread::scope(|scope| {
        let job = Job::new(Task::named("mine", || ())).token(&token);
        let waiting = scope.spawn(|| pool.enqueue(job));
        clock.await_sleepers(1);
        token.cancel();
        let refused = waiting.join().unwrap().unwrap_err();
        assert_eq!(refused.into_inner().name(), "mine");
    });
    assert_eq!(clock.nanos(), 0);
    release(&clock, vec![gate]);
}

#[test]
fn a_stop_ends_a_backoff() {
    let clock = ManualClock::new();
    let pool = tight(&clock, backoff(1_000_000));
    let gate = hold(&pool);
    pool.execute(|| ()).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| pool.execute(|| ()));
        clock.await_sleepers(1);
        let stopped = pool.shutdown(SECOND);
        assert_eq!(
            waiting.join().unwrap().unwrap_err().why(),
            RejectReason::Closed
        );
        gate.open();
        stopped.wait().unwrap();
    });
    assert_eq!(clock.nanos(), 0);
}

#[test]
fn backoff_on_a_thread_of_the_pool_fails_at_once() {
    let clock = ManualClock::new();
    let pool = tight(&clock, backoff(1_000_000));
    let handle = pool.clone();
    let refused = pool.submit(move || {
        handle.execute(|| ()).unwrap();
        handle.execute(|| ()).unwrap_err().why()
    });
    assert_eq!(refused.unwrap().wait().unwrap(), RejectReason::Full);
    assert_eq!(clock.nanos(), 0);
}

#[test]
fn a_closure_decides_on_the_submitters_thread() {
    let clock = ManualClock::new();
    let (log, seen) = Log::pair();
    let decide = move |refused: Rejected<Task>| {
        seen.push(thread::current().id());
        match refused.into_inner() {
            task if task.name() == "wanted" => {
                task.run();
                Ok(())
            }
            task => Err(Rejected::new(task, RejectReason::Full)),
        }
    };
    let pool = tight(&clock, PoolPolicy::With(Arc::new(decide)));
    let gate = hold(&pool);
    pool.execute(|| ()).unwrap();
    let ran = Counter::new();
    pool.execute_task(Task::named("wanted", ran.hits()))
        .unwrap();
    assert!(pool.execute(|| ()).is_err());
    assert_eq!(log.take(), [thread::current().id(); 2]);
    assert_eq!((ran.count(), pool.metrics().refused), (1, 1));
    release(&clock, vec![gate]);
}

#[test]
fn a_stopped_pool_refuses_whatever_the_policy() {
    let clock = ManualClock::new();
    let (asked, count) = Counter::pair();
    let decide = move |refused: Rejected<Task>| {
        count.hit();
        Err(refused)
    };
    let with = PoolPolicy::With(Arc::new(decide));
    let policies = [
        backoff(9),
        PoolPolicy::CallerRuns,
        PoolPolicy::DropOldest,
        with,
    ];
    for policy in policies {
        let pool = tight(&clock, policy);
        pool.shutdown(SECOND).wait().unwrap();
        assert_eq!(pool.execute(|| ()).unwrap_err().why(), RejectReason::Closed);
        let internal = pool.execute_internal(Task::new(|| ()));
        assert_eq!(internal.unwrap_err().why(), RejectReason::Closed);
    }
    assert_eq!((asked.count(), clock.nanos()), (0, 0));
}

#[test]
fn a_displaced_list_keeps_its_order() {
    let mut list = JobList::default();
    for name in ["a", "b"] {
        list.push_back(Job::new(Task::named(name, || ())));
    }
    let by = Job::new(Task::new(|| ()));
    assert_eq!(list.displace(&by).unwrap().name(), "a");
    assert!(matches!(list.pop(), Some(Popped::Run(job)) if job.name() == "b"));
}
