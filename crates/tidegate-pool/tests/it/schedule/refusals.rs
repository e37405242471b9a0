//! Tasks that are due and find no room: they are reported and counted, and their completions fail.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tidegate_core::thread::ThreadJob;
use tidegate_core::{ManualClock, RejectReason, Rejected, ThreadBuilder};
use tidegate_pool::{DisplacedError, PoolPolicy, WorkerPool};
use tidegate_promise::{Completion, WaitError};
use tidegate_testkit::{Counter, Gate, Log, until};

use super::{fixed, heard, hold, view_of};
use crate::SECOND;

/// Returns the reason for which a due task was refused.
fn refusal<T: std::fmt::Debug + Send + 'static>(completion: Completion<T>) -> RejectReason {
    let Err(WaitError::Failed(cause)) = completion.wait() else {
        panic!("it did not fail");
    };
    let refused = cause.downcast_ref::<Rejected<()>>();
    refused.expect("the cause is the refusal").why()
}

/// Logs the name of the thread that drops it.
struct DropPlace(Log<String>);

impl Drop for DropPlace {
    fn drop(&mut self) {
        let name = thread::current().name().unwrap_or_default().to_owned();
        self.0.push(name);
    }
}

#[test]
fn a_due_task_that_finds_no_room_fails_at_once_and_is_dropped_on_the_pool() {
    let clock = ManualClock::new();
    let (hook, errors) = heard();
    let pool = fixed(&clock, 1, 0).report_to(hook.clone()).build().unwrap();
    let gate = hold(&pool);
    let places = Log::new();
    let place = DropPlace(places.clone());
    let refused = pool.schedule(SECOND, move || drop(place)).unwrap();
    let before = pool.metrics().refused;
    clock.jump(SECOND);
    // The waiter is told although no thread of the pool is free.
    assert_eq!(refusal(refused), RejectReason::Full);
    hook.flush().unwrap();
    let told = errors.take();
    assert_eq!(told.len(), 1);
    assert!(told[0].contains("was refused when it was due: the queue is full"));
    assert_eq!(pool.metrics().refused - before, 1);
    assert!(places.is_empty(), "the pool is busy");
    gate.open();
    places.wait_for(1);
    assert!(!places.take()[0].contains("timer"));
}

#[test]
fn a_refused_run_of_a_periodic_task_is_left_out() {
    let clock = ManualClock::new();
    let (hook, errors) = heard();
    let pool = fixed(&clock, 1, 0).report_to(hook.clone()).build().unwrap();
    let runs = Counter::new();
    let ticks = pool.schedule_at_fixed_rate(SECOND, SECOND, runs.hits());
    clock.advance(SECOND);
    let gate = hold(&pool);
    clock.jump(SECOND);
    until("the run is refused", || pool.metrics().refused == 1);
    clock.jump(SECOND);
    until("the next run is refused", || pool.metrics().refused == 2);
    gate.open();
    clock.settle();
    clock.advance(SECOND * 2);
    assert_eq!(runs.count(), 3);
    hook.flush().unwrap();
    assert_eq!(errors.len(), 2);
    let ticks = ticks.unwrap();
    assert!(!ticks.is_done() && ticks.cancel());
}

#[test]
fn no_policy_applies_to_a_due_task() {
    let (asked, count) = Counter::pair();
    let policies = [
        PoolPolicy::CallerRuns,
        PoolPolicy::DropOldest,
        PoolPolicy::Backoff {
            attempts: u32::MAX,
            pause: SECOND,
        },
        PoolPolicy::With(Arc::new(move |refused| {
            count.hit();
            Err(refused)
        })),
    ];
    for policy in policies {
        let clock = ManualClock::new();
        let (hook, _) = heard();
        let pool = fixed(&clock, 1, 1).policy(policy).report_to(hook);
        let pool = pool.build().unwrap();
        let gate = hold(&pool);
        let first = pool.submit(|| 1).unwrap();
        let due = [(); 3].map(|()| pool.schedule(SECOND, || 2).unwrap());
        clock.jump(SECOND);
        for due in due {
            assert_eq!(refusal(due), RejectReason::Full);
        }
        assert_eq!((asked.count(), pool.metrics().caller_ran), (0, 0));
        gate.open();
        assert_eq!(first.wait().unwrap(), 1, "it kept its place");
    }
}

#[test]
fn a_view_over_a_pool_whose_callers_run_refused_jobs_runs_nothing_on_the_timer() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 2, 0).policy(PoolPolicy::CallerRuns);
    let pool = pool.report_to(heard().0).build().unwrap();
    let view = view_of(&pool);
    let gates = [hold(&pool), hold(&pool)];
    let (ran, count) = Counter::pair();
    let due = view.schedule(SECOND, move || count.hit()).unwrap();
    clock.jump(SECOND);
    assert_eq!(refusal(due), RejectReason::Full);
    assert_eq!((ran.count(), pool.metrics().caller_ran), (0, 0));
    gates.iter().for_each(Gate::open);
}

#[test]
fn a_due_task_can_be_displaced_like_any_job() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 1).policy(PoolPolicy::DropOldest);
    let pool = pool.build().unwrap();
    let runs = Counter::new();
    let ticks = pool.schedule_at_fixed_rate(SECOND, SECOND, runs.hits());
    let gate = hold(&pool);
    clock.jump(SECOND);
    until("the run is queued", || pool.metrics().queued == 1);
    let displacing = pool.submit(|| 1).unwrap();
    assert_eq!(pool.metrics().displaced, 1);
    gate.open();
    assert_eq!(displacing.wait().unwrap(), 1);
    clock.settle();
    let gate = hold(&pool);
    let once = pool.schedule(SECOND / 2, || 2).unwrap();
    clock.jump(SECOND / 2);
    until("the task is queued", || pool.metrics().queued == 1);
    let displacing = pool.submit(|| 1).unwrap();
    let cause = once.wait().unwrap_err().failure().unwrap();
    assert!(cause.downcast_ref::<DisplacedError>().is_some());
    gate.open();
    assert_eq!(displacing.wait().unwrap(), 1);
    clock.settle();
    clock.advance(SECOND);
    assert!(runs.count() >= 1, "the periodic task goes on");
    assert!(ticks.unwrap().cancel());
}

/// How a pool gets no thread.
#[derive(Clone, Copy, Debug)]
enum NoThread {
    FactoryFails,
    FactoryPanics,
    ExecutorRefuses,
}

/// Builds a pool that gets no thread while `is_broken`.
fn without_threads(clock: &ManualClock, why: NoThread, is_broken: &Arc<AtomicBool>) -> WorkerPool {
    let fails = Arc::clone(is_broken);
    let pool = fixed(clock, 2, 4).report_to(heard().0);
    let pool = match why {
        NoThread::ExecutorRefuses => pool.borrow_threads(move |task| {
            if fails.load(Ordering::SeqCst) {
                return Err(Rejected::new(task, RejectReason::Full));
            }
            drop(thread::Builder::new().spawn(move || task.run()));
            Ok(())
        }),
        _ => pool.threads(
            ThreadBuilder::new("none").spawner(move |job: ThreadJob| match why {
                _ if !fails.load(Ordering::SeqCst) => {
                    thread::Builder::new().spawn(move || job.run()).map(drop)
                }
                NoThread::FactoryFails => Err(io::Error::other("no thread today")),
                _ => panic!("on purpose"),
            }),
        ),
    };
    pool.build().unwrap()
}

#[test]
fn a_due_task_for_which_no_thread_can_be_started_fails() {
    for why in [
        NoThread::FactoryFails,
        NoThread::FactoryPanics,
        NoThread::ExecutorRefuses,
    ] {
        for is_of_view in [false, true] {
            let (clock, is_broken) = (ManualClock::new(), Arc::new(AtomicBool::new(true)));
            let pool = without_threads(&clock, why, &is_broken);
            let view = view_of(&pool);
            let due = match is_of_view {
                true => view.schedule(SECOND, || 7).unwrap(),
                false => pool.schedule(SECOND, || 7).unwrap(),
            };
            clock.jump(SECOND);
            // Another job may never come, and it would wait for that.
            until(&format!("{why:?}: it has failed"), || due.is_done());
            assert_eq!(refusal(due), RejectReason::NoThread, "{why:?}");
            until("no job waits in the pool", || pool.metrics().queued == 0);
            is_broken.store(false, Ordering::SeqCst);
            assert_eq!(pool.submit(|| 8).unwrap().wait().unwrap(), 8, "{why:?}");
            let ran = Counter::new();
            view.execute(ran.hits()).unwrap();
            ran.wait_for(1);
        }
    }
}

#[test]
fn a_view_counts_what_it_or_its_pool_refuses() {
    let clock = ManualClock::new();
    let (hook, errors) = heard();
    let pool = fixed(&clock, 2, 0).report_to(hook.clone()).build().unwrap();
    let view = view_of(&pool);
    let gates = [hold(&pool), hold(&pool)];
    let (due, runs) = (view.schedule(SECOND, || 7).unwrap(), Counter::new());
    let ticks = view.schedule_at_fixed_rate(SECOND, SECOND, runs.hits());
    clock.jump(SECOND);
    assert_eq!(refusal(due), RejectReason::Full);
    until("both are refused", || view.refused_tasks() == 2);
    gates.iter().for_each(Gate::open);
    clock.settle();
    clock.advance(SECOND);
    assert_eq!(runs.count(), 1);
    hook.flush().unwrap();
    assert_eq!(errors.len(), 2);
    assert!(ticks.unwrap().cancel());
}
