//! Event loops that give their thread back and get a new one.

use std::sync::Barrier;
use std::thread;

use tidegate_core::ManualClock;
use tidegate_loop::{EventLoop, Lifecycle, Quiet};
use tidegate_testkit::{Counter, Gate, until};

use crate::{SECOND, end, hold, home};

/// Waits until the event loop's thread has left, without doing anything else for that.
fn await_suspended(home: &EventLoop) {
    home.settle();
    until("the thread of the loop has left", || {
        home.lifecycle() == Lifecycle::Suspended
    });
}

fn thread_of(home: &EventLoop) -> thread::ThreadId {
    let id = home.submit(|| thread::current().id());
    id.unwrap().wait().unwrap()
}

#[test]
fn an_idle_loop_gives_its_thread_back_and_work_brings_a_new_one() {
    let (home, _clock) = home();
    let first = thread_of(&home);
    assert!(!home.is_suspended());
    assert!(home.try_suspend() && home.try_suspend());
    await_suspended(&home);
    assert!(home.is_suspended() && home.try_suspend());
    let second = thread_of(&home);
    assert_ne!(first, second);
    assert_eq!(home.lifecycle(), Lifecycle::Started);
    end(&home);
    assert!(!home.try_suspend());
}

#[test]
fn a_loop_that_never_started_is_suspended_at_once() {
    let (home, _clock) = home();
    assert!(home.try_suspend());
    assert_eq!(home.lifecycle(), Lifecycle::Suspended);
    assert_eq!(home.submit(|| 7).unwrap().wait().unwrap(), 7);
}

#[test]
fn a_suspended_loop_ends_without_a_thread() {
    let (home, _clock) = home();
    thread_of(&home);
    home.try_suspend();
    await_suspended(&home);
    let ended = home.shutdown(Quiet::default());
    assert!(ended.is_done() && home.is_terminated());
    ended.wait().unwrap();
}

#[test]
fn a_busy_loop_finishes_its_tasks_first() {
    let (home, _clock) = home();
    let (gate, ran) = (hold(&home), Counter::new());
    assert!(home.try_suspend());
    for _ in 0..10 {
        home.execute(ran.hits()).unwrap();
    }
    assert_eq!(home.lifecycle(), Lifecycle::Suspending);
    gate.open();
    await_suspended(&home);
    assert_eq!(ran.count(), 10);
}

#[test]
fn a_loop_with_timers_or_futures_keeps_its_thread() {
    let (home, clock) = home();
    let timer = home.schedule(SECOND, || ()).unwrap();
    let (promise, there) = home.promise::<u32>();
    let future = home.spawn(there).unwrap();
    home.settle();
    assert!(home.try_suspend());
    home.settle();
    assert_eq!(home.lifecycle(), Lifecycle::Suspending);
    clock.advance(SECOND);
    assert!(timer.is_done());
    assert_eq!(home.lifecycle(), Lifecycle::Suspending);
    promise.succeed(7).unwrap();
    assert_eq!(future.wait().unwrap().unwrap(), 7);
    await_suspended(&home);
}

#[test]
fn cancelling_the_last_timer_lets_the_loop_go() {
    let (home, _clock) = home();
    let timer = home.schedule(SECOND, || ()).unwrap();
    home.settle();
    assert!(home.try_suspend());
    home.settle();
    assert!(timer.cancel());
    await_suspended(&home);
    let timeouts = [1, 2, 3].map(|after| home.schedule_coarse(SECOND * after, || ()).unwrap());
    home.settle();
    assert!(home.try_suspend());
    home.settle();
    assert_eq!(home.lifecycle(), Lifecycle::Suspending);
    for timeout in timeouts {
        assert!(timeout.cancel());
    }
    await_suspended(&home);
}

#[test]
fn everything_wakes_a_suspended_loop() {
    let (home, clock) = home();
    let suspended = || {
        home.try_suspend();
        await_suspended(&home);
    };
    suspended();
    let timer = home.schedule(SECOND, || 1).unwrap();
    clock.advance(SECOND);
    assert_eq!(timer.wait().unwrap(), 1);
    suspended();
    assert_eq!(home.spawn(async { 2 }).unwrap().wait().unwrap(), 2);
    suspended();
    let (promise, answer) = home.promise::<u32>();
    let (notified, open) = Gate::pair();
    answer.on_complete(move |_| open.open());
    promise.succeed(3).unwrap();
    notified.wait();
    suspended();
    assert!(home.thread_info().is_some());
    assert_eq!(home.lifecycle(), Lifecycle::Started);
}

#[test]
fn the_handover_between_two_threads_keeps_order_and_loses_nothing() {
    let clock = ManualClock::new();
    let home = crate::on(&clock, "home");
    for round in 0..500_u64 {
        let (ran, all) = (Counter::new(), Barrier::new(2));
        thread::scope(|scope| {
            scope.spawn(|| {
                all.wait();
                home.try_suspend();
            });
            all.wait();
            for expected in 1..=5 {
                let ran = ran.clone();
                home.execute(move || assert_eq!(ran.hit(), expected))
                    .unwrap();
            }
        });
        ran.wait_for(5);
        if round % 3 == 0 {
            home.try_suspend();
            await_suspended(&home);
        }
    }
    assert_eq!(home.metrics().panics, 0);
}

#[test]
fn a_shutdown_against_a_suspension_always_ends() {
    for _ in 0..500 {
        let home = EventLoop::builder("home").build().unwrap();
        home.submit(|| ()).unwrap().wait().unwrap();
        let all = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                all.wait();
                home.try_suspend();
            });
            all.wait();
            let ended = home.shutdown(Quiet::none(SECOND * 60));
            ended.wait().unwrap();
        });
        assert!(home.is_terminated());
    }
}
