//! A thread factory or an executor that does not run the work of a thread. The pool takes the start
//! back, and no job waits for ever.

use std::sync::{Arc, Mutex};

use tidegate_core::thread::ThreadJob;
use tidegate_core::{ManualClock, RejectReason, Rejected, Task, ThreadBuilder};
use tidegate_pool::{DisplacedError, WorkerPool};
use tidegate_testkit::{Counter, Gate, until};

use super::fixed;
use crate::{SECOND, hits};

type Kept<T> = Arc<Mutex<Vec<T>>>;

/// Creates a factory that keeps the work of each thread.
fn keeper() -> (ThreadBuilder, Kept<ThreadJob>) {
    let kept = Kept::default();
    let keep = Arc::clone(&kept);
    let threads = ThreadBuilder::new("workers").spawner(move |job: ThreadJob| {
        keep.lock().unwrap().push(job);
        Ok(())
    });
    (threads, kept)
}

fn take<T>(kept: &Kept<T>) -> Vec<T> {
    std::mem::take(&mut *kept.lock().unwrap())
}

#[test]
fn work_that_is_dropped_or_run_at_once_is_a_failed_start() {
    for runs in [false, true] {
        let clock = ManualClock::new();
        let threads = ThreadBuilder::new("workers").spawner(move |job: ThreadJob| {
            match runs {
                true => job.run(),
                false => drop(job),
            }
            Ok(())
        });
        let pool = fixed(&clock, 1, 4).threads(threads);
        let pool = pool.on_unhandled(|_, _| ()).build().unwrap();
        let refused = pool.execute(|| panic!("must not run")).unwrap_err();
        assert_eq!(refused.why(), RejectReason::NoThread);
        let metrics = pool.metrics();
        assert_eq!((metrics.threads, metrics.accepted), (0, 0));
        assert!(metrics.failed_starts > 0 && metrics.started_threads == 0);
        let report = pool.shutdown(SECOND).wait().unwrap();
        assert!(report.handed_back.is_empty());
    }
}

#[test]
fn a_lost_start_is_replaced_once_and_then_its_jobs_are_told() {
    let clock = ManualClock::new();
    let (threads, kept) = keeper();
    let pool = fixed(&clock, 1, 4).threads(threads);
    let pool = pool.on_unhandled(|_, _| ()).build().unwrap();
    let ran = Counter::new();
    let first = pool.submit(hits(ran.clone())).unwrap();
    let second = pool.submit(hits(ran.clone())).unwrap();
    drop(take(&kept));
    let again = take(&kept);
    assert_eq!(again.len(), 1, "another thread was asked for");
    for job in again {
        std::thread::Builder::new().spawn(|| job.run()).unwrap();
    }
    ran.wait_for(2);
    assert!(
        first.wait().is_ok() && second.wait().is_ok(),
        "none was lost"
    );
    clock.settle();
    assert_eq!(pool.metrics().threads, 1);

    let (threads, kept) = keeper();
    let pool = fixed(&clock, 1, 4).threads(threads);
    let pool = pool.on_unhandled(|_, _| ()).build().unwrap();
    let jobs = [(); 3].map(|()| pool.submit(|| panic!("must not run")).unwrap());
    drop(take(&kept));
    drop(take(&kept));
    for job in jobs {
        let error = job.wait().unwrap_err().failure().expect("it failed");
        assert!(error.downcast_ref::<DisplacedError>().is_some(), "{error}");
    }
    assert_eq!((pool.metrics().threads, pool.metrics().queued), (0, 0));
}

#[test]
fn a_lost_start_during_the_shutdown_hands_its_job_back() {
    let clock = ManualClock::new();
    let (threads, kept) = keeper();
    let pool = fixed(&clock, 1, 4).threads(threads);
    let pool = pool.on_unhandled(|_, _| ()).build().unwrap();
    pool.execute(|| ()).unwrap();
    pool.execute(|| ()).unwrap();
    let end = pool.shutdown(SECOND);
    assert!(!end.is_done());
    drop(take(&kept));
    let report = end.wait().unwrap();
    assert_eq!(report.handed_back.len(), 2);
}

#[test]
fn borrowed_threads_are_given_back_at_once() {
    let clock = ManualClock::new();
    let lender = WorkerPool::builder("lender")
        .core(4)
        .max(4)
        .build()
        .unwrap();
    let lends = lender.clone();
    let pool = fixed(&clock, 2, 8).borrow_threads(move |task: Task| lends.execute_task(task));
    let pool = pool.build().unwrap();
    let ran = Counter::new();
    let (inside, go_on) = (Gate::new(), Gate::new());
    let (here, until_open) = (inside.clone(), go_on.clone());
    pool.execute(move || {
        here.open();
        until_open.wait();
    })
    .unwrap();
    inside.wait();
    for _ in 0..5 {
        pool.execute(hits(ran.clone())).unwrap();
    }
    ran.wait_for(5);
    assert!(pool.metrics().most_threads <= 2, "its own limit");
    go_on.open();
    until("all threads are given back", || {
        lender.metrics().busy == 0 && pool.metrics().threads == 0
    });
    let report = pool.shutdown(SECOND).wait().unwrap();
    assert!(report.handed_back.is_empty() && report.stuck.is_empty());
}

#[test]
fn an_executor_that_has_ended_refuses_the_job() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 8)
        .borrow_threads(|task| Err(Rejected::new(task, RejectReason::Closed)))
        .on_unhandled(|_, _| ());
    let pool = pool.build().unwrap();
    let refused = pool.execute(|| panic!("must not run")).unwrap_err();
    assert_eq!(refused.why(), RejectReason::NoThread);
}
