//! Thread factories and executors of the user's own. One that accepts the work of a thread and does not
//! run it closes the pool.

use std::sync::{Arc, Mutex};

use tidegate_core::thread::ThreadJob;
use tidegate_core::{ManualClock, OnUnhandled, RejectReason, Rejected, Task, ThreadBuilder};
use tidegate_pool::{DisplacedError, WorkerPool};
use tidegate_testkit::{Counter, Log, Stop, until};

use super::fixed;
use crate::SECOND;

/// How a thread factory breaks its contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Breach {
    Drops,
    RunsAtOnce,
    DropsLater,
}

#[test]
fn a_factory_that_does_not_run_the_work_of_a_thread_closes_the_pool() {
    for breach in [Breach::Drops, Breach::RunsAtOnce, Breach::DropsLater] {
        let clock = ManualClock::new();
        let kept = Arc::<Mutex<Vec<ThreadJob>>>::default();
        let keep = Arc::clone(&kept);
        let threads = ThreadBuilder::new("workers").spawner(move |job: ThreadJob| {
            match breach {
                Breach::Drops => drop(job),
                Breach::RunsAtOnce => job.run(),
                Breach::DropsLater => keep.lock().unwrap().push(job),
            }
            Ok(())
        });
        let (errors, heard) = Log::pair();
        let hook = OnUnhandled::new(move |_, what| heard.push(what.to_string()));
        let pool = fixed(&clock, 1, 4).threads(threads).report_to(hook.clone());
        let pool = pool.build().unwrap();
        let mut jobs = vec![pool.submit(|| panic!("must not run")).unwrap()];
        if breach == Breach::DropsLater {
            jobs.push(pool.submit(|| panic!("must not run")).unwrap());
            drop(std::mem::take(&mut *kept.lock().unwrap()));
        }
        for job in jobs {
            let error = job.wait().unwrap_err().failure().expect("it failed");
            assert!(error.downcast_ref::<DisplacedError>().is_some(), "{error}");
        }
        assert_eq!(pool.execute(|| ()).unwrap_err().why(), RejectReason::Closed);
        let report = pool.termination().wait().unwrap();
        assert!(report.handed_back.is_empty() && report.stuck.is_empty());
        assert_eq!((pool.metrics().threads, pool.metrics().queued), (0, 0));
        hook.flush().unwrap();
        let said =
            "the thread factory of pool `workers` failed: it did not run the work of a thread";
        let errors = errors.take();
        assert!(
            errors.len() == 1 && errors[0].starts_with(said),
            "{errors:?}"
        );
        let failed = pool.failed_part().unwrap_or_default();
        assert!(failed.starts_with("the thread factory: "), "{failed}");
    }
}

#[test]
fn work_that_is_dropped_during_the_shutdown_ends_the_pool() {
    let clock = ManualClock::new();
    let kept = Arc::<Mutex<Vec<ThreadJob>>>::default();
    let keep = Arc::clone(&kept);
    let threads = ThreadBuilder::new("workers").spawner(move |job: ThreadJob| {
        keep.lock().unwrap().push(job);
        Ok(())
    });
    let pool = fixed(&clock, 1, 4).threads(threads);
    let pool = pool.on_unhandled(|_, _| ()).build().unwrap();
    let jobs = [(); 2].map(|()| pool.submit(|| panic!("must not run")).unwrap());
    let end = pool.shutdown(SECOND);
    assert!(!end.is_done());
    drop(std::mem::take(&mut *kept.lock().unwrap()));
    assert!(end.wait().is_ok());
    for job in jobs {
        assert!(job.wait().is_err());
    }
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
    let stop = Stop::new();
    pool.execute(stop.closure()).unwrap();
    stop.reached();
    for _ in 0..5 {
        pool.execute(ran.hits()).unwrap();
    }
    ran.wait_for(5);
    assert!(pool.metrics().most_threads <= 2, "its own limit");
    stop.go_on();
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
