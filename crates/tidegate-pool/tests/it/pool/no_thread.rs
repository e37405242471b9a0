//! A thread factory that gives no thread for a while: no job waits for ever, and no wait relies on a
//! thread that cannot be started.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tidegate_core::thread::ThreadJob;
use tidegate_core::{ManualClock, RejectReason, ThreadBuilder};
use tidegate_pool::{DisplacedError, OrderedView};
use tidegate_testkit::{Counter, Gate, Stop, until};

use super::fixed;
use crate::SECOND;

/// A factory that gives a thread unless `is_broken`, and calls `before` first.
fn factory(
    is_broken: &Arc<AtomicBool>,
    before: impl Fn() + Send + Sync + 'static,
) -> ThreadBuilder {
    let is_broken = Arc::clone(is_broken);
    ThreadBuilder::new("workers").spawner(move |job: ThreadJob| {
        before();
        if is_broken.load(Ordering::SeqCst) {
            return Err(io::Error::other("no thread today"));
        }
        thread::Builder::new().spawn(move || job.run()).map(drop)
    })
}

#[test]
fn a_job_that_waits_for_a_thread_that_never_comes_is_told() {
    let clock = ManualClock::new();
    let stop = Stop::new();
    let threads = factory(&Arc::new(AtomicBool::new(true)), stop.closure());
    let pool = fixed(&clock, 1, 4).threads(threads);
    let pool = pool.on_unhandled(|_, _| ()).build().unwrap();
    thread::scope(|scope| {
        let first = scope.spawn(|| pool.execute(|| ()).unwrap_err().why());
        stop.reached();
        // The pool has a thread, as far as it knows.
        let second = pool.submit(|| ()).unwrap();
        stop.go_on();
        assert_eq!(first.join().unwrap(), RejectReason::NoThread);
        let error = second.wait().unwrap_err().failure().expect("it failed");
        assert!(error.downcast_ref::<DisplacedError>().is_some(), "{error}");
    });
    let metrics = pool.metrics();
    assert_eq!((metrics.threads, metrics.queued), (0, 0));
    assert_eq!(metrics.accepted, metrics.displaced);
}

#[test]
fn a_periodic_task_goes_on_after_a_run_for_which_there_was_no_thread() {
    let clock = ManualClock::new();
    let is_broken = Arc::new(AtomicBool::new(true));
    let threads = factory(&is_broken, || ());
    let pool = fixed(&clock, 2, 4).threads(threads);
    let pool = pool.on_unhandled(|_, _| ()).build().unwrap();
    let view = OrderedView::over(Arc::new(pool.clone())).unwrap();
    let (runs, of_view) = (Counter::new(), Counter::new());
    let ticks = pool.schedule_at_fixed_rate(SECOND, SECOND, runs.hits());
    let view_ticks = view.schedule_at_fixed_rate(SECOND, SECOND, of_view.hits());
    let once = pool.schedule(SECOND, || ()).unwrap();
    clock.jump(SECOND);
    assert!(once.wait().is_err(), "it waits for no other task");
    until("the other two have failed, too", || {
        let metrics = pool.metrics();
        metrics.scheduled == 2 && metrics.threads == 0
    });
    is_broken.store(false, Ordering::SeqCst);
    clock.settle();
    clock.advance(SECOND);
    runs.wait_for(1);
    of_view.wait_for(1);
    assert!(ticks.unwrap().cancel() && view_ticks.unwrap().cancel());
}

#[test]
fn a_wait_does_not_rely_on_a_thread_that_cannot_be_started() {
    let clock = ManualClock::new();
    let is_broken = Arc::new(AtomicBool::new(false));
    let pool = fixed(&clock, 2, 4).threads(factory(&is_broken, || ()));
    let pool = pool.on_unhandled(|_, _| ()).build().unwrap();
    let waits = |fails: bool| {
        let (inner, is_broken) = (pool.clone(), Arc::clone(&is_broken));
        let waited = pool.submit(move || {
            is_broken.store(fails, Ordering::SeqCst);
            let behind = inner.submit(|| 7).unwrap();
            let waited = behind.wait();
            is_broken.store(false, Ordering::SeqCst);
            waited.is_err_and(|error| error.is_refused())
        });
        waited.unwrap().wait().unwrap()
    };
    assert!(waits(true), "its only thread would wait for itself");
    assert!(!waits(false), "there is another thread again");
}

#[test]
fn a_wait_relies_on_a_thread_that_runs_before_its_factory_has_answered() {
    let clock = ManualClock::new();
    let (starts, answers) = (Counter::new(), Gate::new());
    let answer = answers.clone();
    let threads = ThreadBuilder::new("workers").spawner(move |job: ThreadJob| {
        match starts.hit() {
            2 => return Err(io::Error::other("no thread today")),
            3 => {
                thread::Builder::new().spawn(move || job.run())?;
                answer.wait();
            }
            _ => drop(thread::Builder::new().spawn(move || job.run())?),
        }
        Ok(())
    });
    let pool = fixed(&clock, 2, 4).threads(threads);
    let pool = pool.on_unhandled(|_, _| ()).build().unwrap();
    let first = super::hold(&pool);
    let behind = pool.submit(|| 5).unwrap();
    let inner = pool.clone();
    let waits = move || {
        let behind = inner.submit(|| 7).unwrap();
        first.open();
        let waited = behind.wait();
        answers.open();
        waited
    };
    // Submitted on a thread that waits for the answer of the factory.
    let waited = thread::scope(|scope| {
        let submitted = scope.spawn(|| pool.submit(waits).unwrap());
        submitted.join().unwrap().wait().unwrap()
    });
    assert_eq!(waited.unwrap(), 7, "two threads run");
    assert_eq!(behind.wait().unwrap(), 5);
}
