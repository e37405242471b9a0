//! Job handles, custom queues and cancellation tokens.

use tidegate_core::{CancelToken, ManualClock, RejectReason, Task};
use tidegate_pool::queue::{Job, JobKey, JobList, JobQueue, Popped};
use tidegate_pool::{DisplacedError, WorkerPool};
use tidegate_promise::WaitError;
use tidegate_testkit::{Counter, Log};

use super::{fixed, hold, release};

#[test]
fn a_handle_takes_a_waiting_job_back_and_frees_its_place() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 1).build().unwrap();
    let gate = hold(&pool);
    let ran = Counter::new();
    let queued = pool.enqueue(Task::named("late", ran.hits())).unwrap();
    assert!(queued.was_queued());
    assert_eq!(pool.execute(|| ()).unwrap_err().why(), RejectReason::Full);
    let task = queued.remove().unwrap();
    assert_eq!(task.name(), "late");
    pool.execute(|| ()).unwrap();
    assert!(queued.remove().is_none());
    release(&clock, vec![gate]);
    assert_eq!(ran.count(), 0);
    task.run();
    assert_eq!(ran.count(), 1);
    assert_eq!(pool.metrics().removed, 1);
}

#[test]
fn a_handle_does_not_reach_a_job_that_has_started() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 1).build().unwrap();
    let (task, arrived, go_on) = super::held("held");
    let started = pool.enqueue(task).unwrap();
    arrived.wait();
    let ran = Counter::new();
    let waiting = pool.enqueue(Task::new(ran.hits())).unwrap();
    assert!(started.remove().is_none(), "not even the other job");
    go_on.open();
    ran.wait_for(1);
    assert!(waiting.remove().is_none());
    drop(pool);
    assert!(waiting.remove().is_none());
}

#[test]
fn a_job_whose_token_was_tripped_does_not_start() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 4).build().unwrap();
    let gate = hold(&pool);
    let (token, ran) = (CancelToken::new(), Counter::new());
    let job = Job::new(Task::new(ran.hits())).token(&token);
    pool.enqueue(job).unwrap();
    token.cancel();
    release(&clock, vec![gate]);
    assert_eq!((ran.count(), pool.metrics().cancelled), (0, 1));
}

#[test]
fn a_cancelled_completion_keeps_its_job_from_running() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 4).build().unwrap();
    let gate = hold(&pool);
    let ran = Counter::new();
    let answer = pool.submit(ran.hits()).unwrap();
    assert!(answer.cancel());
    release(&clock, vec![gate]);
    assert_eq!(ran.count(), 0);
}

#[test]
fn the_default_queue_is_first_in_first_out() {
    let clock = ManualClock::new();
    let order = run_numbered(&clock, fixed(&clock, 1, 16).build().unwrap());
    assert_eq!(order, [0, 1, 2, 3, 4]);
}

/// A queue that runs the newest job first.
#[derive(Default)]
struct Stack(JobList);

impl JobQueue for Stack {
    fn push(&mut self, job: Job) -> JobKey {
        self.0.push_back(job)
    }

    fn pop(&mut self) -> Option<Popped> {
        self.0.pop_back().map(Popped::Run)
    }

    fn remove(&mut self, key: JobKey) -> Option<Job> {
        self.0.remove(key)
    }

    fn displace(&mut self, _by: &Job) -> Option<Job> {
        self.0.pop_front()
    }
}

#[test]
fn another_queue_brings_another_order() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 16).queue_of(Stack::default());
    let order = run_numbered(&clock, pool.build().unwrap());
    assert_eq!(order, [4, 3, 2, 1, 0]);
}

/// Submits five jobs while the pool's only thread is blocked. Returns the order in which they ran.
fn run_numbered(clock: &ManualClock, pool: WorkerPool) -> Vec<u32> {
    let (gate, log) = (hold(&pool), Log::new());
    for number in 0..5 {
        pool.execute(log.pushes(number)).unwrap();
    }
    release(clock, vec![gate]);
    log.take()
}

/// A queue that sheds every job but the last, as a queue with a limit on waiting may do.
#[derive(Default)]
struct Shedding(JobList);

impl JobQueue for Shedding {
    fn push(&mut self, job: Job) -> JobKey {
        self.0.push_back(job)
    }

    fn pop(&mut self) -> Option<Popped> {
        let job = self.0.pop_front()?;
        Some(match self.0.is_empty() {
            true => Popped::Run(job),
            false => Popped::Shed(job),
        })
    }

    fn remove(&mut self, key: JobKey) -> Option<Job> {
        self.0.remove(key)
    }
}

#[test]
fn a_job_that_the_queue_gives_up_fails_as_displaced() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 16).queue_of(Shedding::default());
    let pool = pool.build().unwrap();
    let gate = hold(&pool);
    let answers: Vec<_> = (0..3).map(|n| pool.submit(move || n).unwrap()).collect();
    release(&clock, vec![gate]);
    for (number, answer) in answers.into_iter().enumerate() {
        match answer.wait() {
            Ok(value) => assert_eq!((number, value), (2, 2)),
            Err(WaitError::Failed(cause)) => {
                assert!(number < 2 && cause.downcast_ref::<DisplacedError>().is_some());
            }
            Err(other) => panic!("unexpected: {other}"),
        }
    }
    assert_eq!(pool.metrics().shed, 2);
}

#[test]
fn names_and_classes_travel_with_a_job() {
    let job = Job::new(Task::named("report", || ())).with_criticality(3);
    assert_eq!((job.name(), job.criticality()), ("report", 3));
    assert!(!job.is_cancelled());
    assert_eq!(job.into_task().name(), "report");
}
