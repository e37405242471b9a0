//! Which threads may wait for the end of a timer, and how to await it without blocking.

use std::error::Error;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use super::*;
use tidegate_core::executor::{ExecutorId, Signal, WaitPolicy, enter};
use tidegate_core::internal::check_wait;
use tidegate_core::{Clock, Executor, Rejected, Task, ThreadBuilder};
use tidegate_testkit::block_on;
use tidegate_timer::{Shutdown, ShutdownReport, UnfiredTimeout};

/// An executor that only has a name and runs nothing.
struct StubExecutor(ExecutorId, Clock);

impl StubExecutor {
    fn new() -> Arc<Self> {
        Arc::new(Self(ExecutorId::next(), Clock::system()))
    }
}

impl Executor for StubExecutor {
    fn execute(&self, task: Task) -> Result<(), Rejected<Task>> {
        Err(Rejected::new(task, RejectReason::Unsupported))
    }

    fn signal(&self, signal: Signal) -> Result<(), Rejected<Signal>> {
        Err(Rejected::new(signal, RejectReason::Unsupported))
    }

    fn is_current(&self) -> bool {
        tidegate_core::executor::is_current(self.0)
    }

    fn id(&self) -> ExecutorId {
        self.0
    }

    fn name(&self) -> &str {
        "plate"
    }

    fn clock(&self) -> &Clock {
        &self.1
    }
}

fn poll(shutdown: &mut Shutdown, waker: &Waker) -> Poll<Result<ShutdownReport, TimerError>> {
    Pin::new(shutdown).poll(&mut Context::from_waker(waker))
}

/// Waits for the end of a shutdown.
fn finish(shutdown: Shutdown) -> Vec<UnfiredTimeout> {
    let report = block_on("the timer has stopped", shutdown);
    report.expect("it was not started by this thread").unfired
}

#[test]
fn an_event_loop_must_not_wait_for_it_and_awaits_it_instead() {
    let (timer, clock) = timer();
    // The timer does not end before the wait is refused: its thread is held.
    let (held, go_on) = (Gate::new(), Gate::new());
    let (here, until) = (held.clone(), go_on.clone());
    let hold = move || {
        here.open();
        until.wait();
    };
    timer.schedule(SECOND, hold).unwrap();
    clock.settle();
    clock.jump(SECOND);
    held.wait();
    let handle = timer.schedule(SECOND, || ()).unwrap();
    let mark = enter(StubExecutor::new(), WaitPolicy::Loop);
    timer.schedule(SECOND, || ()).unwrap();
    let mut shutdown = timer.shutdown();
    let error = shutdown.wait().unwrap_err();
    assert!(matches!(&error, TimerError::Refused(why) if !why.is_deadlock()));
    let message = error.source().expect("it has a cause").to_string();
    assert!(
        message.contains("plate, an event loop, must not block"),
        "{message}"
    );
    assert!(!handle.is_cancelled(), "the shutdown can still be awaited");
    let refused = timer.schedule(SECOND, || ()).unwrap_err();
    assert_eq!(refused.why(), RejectReason::Closed);
    go_on.open();
    assert_eq!(finish(shutdown).len(), 2);
    assert!(handle.is_cancelled());
    assert!(
        timer
            .shutdown()
            .wait()
            .is_ok_and(|report| report.unfired.is_empty()),
        "no wait"
    );
    drop(mark);
}

#[test]
fn a_pool_must_not_wait_for_a_timer_whose_task_waits_for_the_pool() {
    let (timer, clock) = timer();
    let pool = StubExecutor::new();
    let (waits, go_on) = (Gate::new(), Gate::new());
    let (home, waiting, until) = (Arc::clone(&pool), waits.clone(), go_on.clone());
    let wait = move || {
        let _recorded = check_wait(Some(&*home)).unwrap();
        waiting.open();
        until.wait();
    };
    timer.schedule(SECOND, wait).unwrap();
    clock.settle();
    clock.jump(SECOND);
    waits.wait();
    let mark = enter(pool, WaitPolicy::Free);
    let mut shutdown = timer.shutdown();
    let error = shutdown.wait().unwrap_err();
    assert!(matches!(&error, TimerError::Refused(why) if why.is_deadlock()));
    assert!(poll(&mut shutdown, Waker::noop()).is_pending());
    go_on.open();
    assert!(finish(shutdown).is_empty());
    drop(mark);
}

#[test]
fn its_own_task_may_begin_the_stop() {
    let (timer, clock) = timer();
    let (inner, log) = (timer.clone(), Log::new());
    let notified = log.clone();
    let begin = move || {
        let mut shutdown = inner.shutdown();
        assert!(poll(&mut shutdown, Waker::noop()).is_pending());
        notified.push(shutdown);
    };
    timer.schedule(SECOND, begin).unwrap();
    let later = timer.schedule(9 * SECOND, || ()).unwrap();
    clock.settle();
    clock.jump(SECOND);
    log.wait_for(1);
    let unfired = finish(log.take().remove(0));
    assert_eq!(unfired.len(), 1);
    assert_eq!(unfired[0].remaining, 8 * SECOND);
    assert!(later.is_cancelled() && timer.pending() == 0);
}

#[test]
fn the_second_stop_is_ready_at_once_with_nothing() {
    let (timer, clock) = timer();
    timer.schedule(SECOND, || ()).unwrap();
    clock.settle();
    let first = timer.shutdown();
    assert!(finish(timer.shutdown()).is_empty());
    assert!(
        timer
            .shutdown()
            .wait()
            .is_ok_and(|report| report.unfired.is_empty())
    );
    assert_eq!(finish(first).len(), 1);
}

#[test]
fn a_stop_that_is_given_up_cancels_what_is_pending() {
    let (timer, clock) = timer();
    let (hooks, drops) = (Counter::new(), Counter::new());
    let (count, value) = (hooks.clone(), DropCount::new(&drops));
    let task = TimerTask::new(move || drop(value)).on_cancel(move || count.note());
    let handle = timer.schedule_task(SECOND, task).unwrap();
    clock.settle();
    drop(timer.shutdown());
    hooks.wait_for(1);
    drops.wait_for(1);
    assert!(handle.is_cancelled());
}

#[test]
fn the_last_handle_takes_nothing_from_a_stop_under_way() {
    let (timer, clock) = timer();
    let drops = Counter::new();
    let value = DropCount::new(&drops);
    timer.schedule(SECOND, move || drop(value)).unwrap();
    clock.settle();
    let shutdown = timer.shutdown();
    drop(timer);
    let unfired = finish(shutdown);
    assert_eq!((unfired.len(), drops.count()), (1, 0));
}

#[test]
fn a_spawner_that_fails_or_panics_refuses_the_timeout_and_the_next_one_tries_again() {
    let clock = ManualClock::new();
    let (works, panics) = (Arc::new(AtomicBool::new(false)), AtomicBool::new(true));
    let may = Arc::clone(&works);
    let threads = ThreadBuilder::new("own").spawner(move |job| {
        if may.load(Ordering::Relaxed) {
            return std::thread::Builder::new()
                .spawn(move || job.run())
                .map(drop);
        }
        if panics.swap(false, Ordering::Relaxed) {
            explode();
        }
        Err(io::Error::other("no more threads"))
    });
    let timer = WheelTimer::builder("test").clock(&clock).threads(threads);
    let timer = timer.build().unwrap();
    for _ in 0..2 {
        let refused = timer.schedule(SECOND, || ()).unwrap_err();
        assert_eq!(
            (refused.why(), timer.pending()),
            (RejectReason::NoThread, 0)
        );
    }
    works.store(true, Ordering::Relaxed);
    let handle = timer.schedule(SECOND, || ()).unwrap();
    clock.advance(SECOND);
    assert!(handle.is_expired());
}
