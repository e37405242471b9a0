//! How a pool ends: accepted jobs run until the deadline, the rest are handed back.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tidegate_core::thread::ThreadJob;
use tidegate_core::{ManualClock, RejectReason, Task, ThreadBuilder};
use tidegate_pool::queue::{Job, JobKey, JobList, JobQueue, Popped};
use tidegate_pool::{OrderedView, WorkerPool};
use tidegate_promise::{WaitError, promise};
use tidegate_testkit::{Counter, DropCount, Gate, Stop, until};

use super::{fixed, hold, hold_many, release};
use crate::SECOND;

#[test]
fn a_pool_that_never_ran_ends_at_once() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 2, 8).build().unwrap();
    let report = pool.shutdown(SECOND).wait().unwrap();
    assert_eq!((report.ran, report.stuck.len()), (0, 0));
    assert_eq!(pool.execute(|| ()).unwrap_err().why(), RejectReason::Closed);
}

#[test]
fn idle_threads_are_woken_and_end() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 4, 8).build().unwrap();
    release(&clock, hold_many(&pool, 4));
    pool.shutdown(SECOND).wait().unwrap();
    assert_eq!((pool.metrics().threads, clock.nanos()), (0, 0));
}

#[test]
fn what_was_accepted_runs_before_the_deadline() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 8).build().unwrap();
    let (gate, ran) = (hold(&pool), Counter::new());
    for _ in 0..5 {
        pool.execute(ran.hits()).unwrap();
    }
    let stopped = pool.shutdown(SECOND);
    assert_eq!(pool.execute(|| ()).unwrap_err().why(), RejectReason::Closed);
    assert!(!stopped.is_done());
    gate.open();
    let report = stopped.wait().unwrap();
    assert_eq!(
        (report.ran, report.handed_back.len(), ran.count()),
        (6, 0, 5)
    );
    assert_eq!(
        report.to_string(),
        "6 jobs ended in the shutdown, 0 handed back"
    );
}

#[test]
fn at_the_deadline_what_has_not_started_is_handed_back_and_the_rest_is_named() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 8).build().unwrap();
    let (gate, ran) = (hold(&pool), Counter::new());
    for _ in 0..3 {
        pool.execute(ran.hits()).unwrap();
    }
    let stopped = pool.shutdown(4 * SECOND);
    let token = pool.shutdown_token();
    clock.await_sleepers(1);
    clock.jump(SECOND);
    assert!(!token.is_cancelled());
    let notified = Gate::new();
    token.on_cancel(notified.opens()).forget();
    clock.jump(SECOND);
    notified.wait();
    assert!(!stopped.is_done(), "half of the time is left");
    clock.jump(2 * SECOND);
    let report = stopped.wait().unwrap();
    assert_eq!(report.stuck.len(), 1);
    assert_eq!(report.stuck[0].task, "held");
    assert!(report.stuck[0].thread.starts_with("workers-"));
    assert!(report.to_string().contains("`held` still runs on workers-"));
    let tasks = report.handed_back.take();
    assert_eq!((tasks.len(), ran.count()), (3, 0));
    tasks.into_iter().for_each(Task::run);
    assert_eq!(ran.count(), 3);
    gate.open();
    until("the pool has no thread", || pool.metrics().threads == 0);
}

#[test]
fn a_job_that_looks_at_the_token_ends_in_time() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 8).build().unwrap();
    let (token, begun) = (pool.shutdown_token(), Gate::new());
    let (here, notified) = (begun.clone(), Gate::new());
    pool.execute(move || {
        token.on_cancel(notified.opens()).forget();
        here.open();
        notified.wait();
    })
    .unwrap();
    begun.wait();
    let stopped = pool.shutdown(4 * SECOND);
    clock.await_sleepers(1);
    clock.jump(2 * SECOND);
    let report = stopped.wait().unwrap();
    assert_eq!((report.ran, report.stuck.len()), (1, 0));
}

#[test]
fn without_a_timeout_what_waits_comes_back_at_once() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 8).build().unwrap();
    let gate = hold(&pool);
    let answer = pool.submit(|| 7).unwrap();
    let report = pool.shutdown(Duration::ZERO).wait().unwrap();
    assert_eq!((report.handed_back.len(), report.stuck.len()), (1, 1));
    assert!(!answer.is_done());
    report.handed_back.take().into_iter().for_each(Task::run);
    assert_eq!(answer.wait().unwrap(), 7);
    gate.open();
}

#[test]
fn a_second_stop_can_only_make_it_earlier() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 8).build().unwrap();
    let gate = hold(&pool);
    let first = pool.shutdown(1000 * SECOND);
    clock.await_sleepers(1);
    let second = pool.shutdown(2 * SECOND);
    let _later = pool.shutdown(5000 * SECOND);
    clock.jump(2 * SECOND);
    let reports = (first.wait().unwrap(), second.wait().unwrap());
    assert_eq!(reports.0, reports.1);
    assert_eq!(reports.0.stuck.len(), 1);
    gate.open();
}

#[test]
fn a_thread_of_the_pool_may_stop_it() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 2, 8).build().unwrap();
    release(&clock, hold_many(&pool, 2));
    let handle = pool.clone();
    let asked = pool.submit(move || handle.shutdown(SECOND)).unwrap();
    let report = asked.wait().unwrap().wait().unwrap();
    assert_eq!((report.ran, report.stuck.len()), (1, 0));
}

#[test]
fn the_last_handle_ends_the_pool_after_what_it_accepted() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 8).build().unwrap();
    let (gate, ran) = (hold(&pool), Counter::new());
    for _ in 0..3 {
        pool.execute(ran.hits()).unwrap();
    }
    let stopped = pool.termination();
    drop(pool);
    assert!(!stopped.is_done());
    gate.open();
    stopped.wait().unwrap();
    assert_eq!(ran.count(), 3);
}

#[test]
fn jobs_that_are_not_taken_back_are_dropped_with_the_pool() {
    let clock = ManualClock::new();
    let drops = Counter::new();
    let gate = {
        let pool = fixed(&clock, 1, 8).build().unwrap();
        let gate = hold(&pool);
        for _ in 0..3 {
            let load = DropCount::new(&drops);
            drop(pool.submit(move || drop(load)).unwrap());
        }
        pool.shutdown(Duration::ZERO).wait().unwrap();
        gate
    };
    drops.wait_for(3);
    gate.open();
}

#[test]
fn a_stop_resets_the_budget() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 4, 8).build().unwrap();
    let lease = pool.lease("selectors", 3).unwrap();
    pool.shutdown(SECOND).wait().unwrap();
    assert_eq!(pool.metrics().leased, 0);
    drop(lease);
}

#[test]
fn submitters_against_a_stop_lose_nothing() {
    for _ in 0..50 {
        let clock = ManualClock::new();
        let pool = fixed(&clock, 2, 1000).build().unwrap();
        let (ran, accepted) = (Counter::new(), Counter::new());
        let report = thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        match pool.execute(ran.hits()) {
                            Ok(()) => {
                                accepted.hit();
                            }
                            Err(refused) => assert_eq!(refused.why(), RejectReason::Closed),
                        }
                    }
                });
            }
            pool.shutdown(SECOND).wait().unwrap()
        });
        let back = report.handed_back.len() as u64;
        assert_eq!(ran.count() + back, accepted.count());
    }
}

/// A queue that opens a gate when it becomes empty.
struct Emptied {
    jobs: JobList,
    gate: Gate,
}

impl JobQueue for Emptied {
    fn push(&mut self, job: Job) -> JobKey {
        self.jobs.push_back(job)
    }

    fn pop(&mut self) -> Option<Popped> {
        let popped = self.jobs.pop_front().map(Popped::Run);
        if self.jobs.is_empty() {
            self.gate.open();
        }
        popped
    }

    fn remove(&mut self, key: JobKey) -> Option<Job> {
        self.jobs.remove(key)
    }

    fn displace(&mut self, _by: &Job) -> Option<Job> {
        self.jobs.pop_front()
    }
}

#[test]
fn the_last_thread_that_ends_at_the_deadline_loses_nothing() {
    const JOBS: usize = 20_000;
    for _ in 0..3 {
        let clock = ManualClock::new();
        let (arrived, emptied) = (Gate::new(), Gate::new());
        let queue = Emptied {
            jobs: JobList::default(),
            gate: emptied.clone(),
        };
        let pool = fixed(&clock, 1, JOBS).queue_of(queue).build().unwrap();
        let here = arrived.clone();
        // Ends when the shutdown has taken the last job out of the queue.
        pool.execute(move || {
            here.open();
            emptied.wait();
        })
        .unwrap();
        arrived.wait();
        let ran = Counter::new();
        for _ in 0..JOBS {
            pool.execute(ran.hits()).unwrap();
        }
        let report = pool.shutdown(Duration::ZERO).wait().unwrap();
        assert_eq!((report.handed_back.len(), report.stuck.len()), (JOBS, 1));
        assert_eq!(ran.count(), 0);
        until("the pool has no thread", || pool.metrics().threads == 0);
    }
}

#[test]
fn a_job_given_to_a_thread_that_has_not_begun_is_handed_back() {
    let clock = ManualClock::new();
    let started = Arc::new(Mutex::new(Vec::<ThreadJob>::new()));
    let late = Arc::clone(&started);
    let threads = ThreadBuilder::new("workers").spawner(move |job: ThreadJob| {
        late.lock().unwrap().push(job);
        Ok(())
    });
    let pool = fixed(&clock, 2, 8).threads(threads).build().unwrap();
    let ran = Counter::new();
    for _ in 0..3 {
        pool.execute(ran.hits()).unwrap();
    }
    let report = pool.shutdown(Duration::ZERO).wait().unwrap();
    assert_eq!((report.handed_back.len(), report.stuck.len()), (3, 0));
    for thread in started.lock().unwrap().drain(..) {
        thread.run();
    }
    assert_eq!((ran.count(), pool.metrics().threads), (0, 0));
    report.handed_back.take().into_iter().for_each(Task::run);
    assert_eq!(ran.count(), 3);
}

#[test]
fn at_the_end_each_job_has_run_still_runs_or_is_handed_back() {
    for round in 0..200 {
        let clock = ManualClock::new();
        let pool = fixed(&clock, 3, 64).reserved(1).build().unwrap();
        release(&clock, hold_many(&pool, 3));
        let (ran, mut accepted) = (Counter::new(), 0);
        for job in 0..round % 7 {
            let task = Task::new(ran.hits());
            let given = match job % 3 {
                0 => pool.try_execute(task).is_ok(),
                _ => pool.execute_task(task).is_ok(),
            };
            accepted += u64::from(given);
        }
        let report = pool.shutdown(Duration::ZERO).wait().unwrap();
        let (stuck, back) = (report.stuck.len() as u64, report.handed_back.len() as u64);
        let unaccounted = accepted - back - ran.count();
        assert!(unaccounted <= stuck, "{unaccounted} start after the end");
        until("the pool has no thread", || pool.metrics().threads == 0);
        assert_eq!(ran.count() + back, accepted);
    }
}

#[test]
fn a_listener_of_the_stop_token_that_blocks_does_not_delay_the_end() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 8).build().unwrap();
    let job = hold(&pool);
    pool.execute(|| ()).unwrap();
    let stop = Stop::new();
    let token = pool.shutdown_token();
    token.on_cancel(stop.closure()).forget();
    let stopped = pool.shutdown(4 * SECOND);
    clock.await_sleepers(1);
    clock.jump(2 * SECOND);
    stop.reached();
    clock.jump(2 * SECOND);
    let report = stopped.wait().unwrap();
    assert_eq!((report.handed_back.len(), report.stuck.len()), (1, 1));
    stop.go_on();
    job.open();
}

#[test]
fn a_listener_of_the_end_that_blocks_keeps_no_thread() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 3, 8).build().unwrap();
    release(&clock, hold_many(&pool, 2));
    let job = hold(&pool);
    let stop = Stop::new();
    let inside = stop.closure();
    pool.termination().on_complete(move |_| {
        inside();
    });
    thread::scope(|scope| {
        scope.spawn(|| pool.shutdown(Duration::ZERO));
        stop.reached();
        until("one thread is left", || pool.metrics().threads == 1);
        job.open();
        until("the pool has no thread", || pool.metrics().threads == 0);
        stop.go_on();
    });
}

#[test]
fn a_report_does_not_print_every_task() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 8).build().unwrap();
    let gate = hold(&pool);
    for _ in 0..3 {
        pool.execute_task(Task::named("secret", || ())).unwrap();
    }
    let report = pool.shutdown(Duration::ZERO).wait().unwrap();
    let printed = format!("{report:?}");
    assert!(printed.contains("HandedBack { tasks: 3 }"), "{printed}");
    assert!(!printed.contains("secret"), "{printed}");
    gate.open();
}

#[test]
fn a_job_does_not_wait_for_the_end_of_its_own_pool() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 4, 8).build().unwrap();
    let other = fixed(&clock, 1, 8).build().unwrap();
    let view = OrderedView::builder(Arc::new(pool.clone()))
        .build()
        .unwrap();
    let refused = |pool: &WorkerPool| {
        let error = pool.termination().wait().unwrap_err();
        let WaitError::Refused(why) = error else {
            panic!("not refused: {error}")
        };
        assert!(why.is_deadlock(), "{why}");
        assert!(why.names().contains(&pool.name()), "{why}");
    };
    // In a job, and in a task of a view.
    let mine = pool.clone();
    pool.submit(move || refused(&mine)).unwrap().wait().unwrap();
    let mine = pool.clone();
    let (was_refused, answer) = promise::<()>();
    let in_view = move || {
        refused(&mine);
        was_refused.succeed(()).unwrap();
    };
    view.execute(in_view).unwrap();
    answer.wait().unwrap();
    // In a job of another pool, which a job of this pool waits for. The second of the two waits is
    // refused, although three threads of this pool are free.
    let (mine, middle) = (pool.clone(), other.clone());
    let through = move || {
        let inner = middle.submit(move || mine.termination().wait().is_err());
        inner.unwrap().wait()
    };
    match pool.submit(through).unwrap().wait().unwrap() {
        Ok(inner_refused) => assert!(inner_refused),
        Err(outer) => assert!(outer.is_refused(), "{outer}"),
    }
    // A wait from outside is allowed, also by a job of another pool.
    let mine = pool.clone();
    let stops = pool.submit(move || mine.shutdown(Duration::MAX).wait().unwrap_err());
    assert!(stops.unwrap().wait().unwrap().is_refused());
    let waits = other.submit(move || pool.termination().wait().unwrap().ran);
    waits.unwrap().wait().unwrap();
    other.shutdown(SECOND).wait().unwrap();
}
