//! Hyper's timer and sleep on the wheels of event loops.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use hyper::rt::{Sleep, Timer};
use tidegate_core::{Clock, ManualClock};
use tidegate_hyper::LoopTimer;
use tidegate_loop::EventLoop;

fn is_due(sleep: &mut Pin<Box<dyn Sleep>>) -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    sleep.as_mut().poll(&mut cx) == Poll::Ready(())
}

/// Runs `work` on the loop.
fn on<T: Send + 'static>(home: &EventLoop, work: impl FnOnce() -> T + Send + 'static) -> T {
    home.submit(work).unwrap().wait().unwrap()
}

#[test]
fn a_sleep_ends_by_the_clock_of_its_loop_and_can_be_moved() {
    let clock = ManualClock::new();
    let home = EventLoop::builder("home").clock(&clock).build().unwrap();
    let timer = on(&home, LoopTimer::current);
    assert_eq!(timer.now(), Clock::from(&clock).now());
    let own = timer.clone();
    let mut sleep = on(&home, move || {
        let mut sleep = own.sleep(Duration::from_secs(10));
        assert!(!is_due(&mut sleep));
        sleep
    });
    clock.advance(Duration::from_secs(9));
    assert!(!is_due(&mut sleep));
    // Later, then earlier than at first.
    timer.reset(&mut sleep, timer.now() + Duration::from_secs(5));
    clock.advance(Duration::from_secs(4));
    let mut sleep = on(&home, move || {
        assert!(!is_due(&mut sleep));
        sleep
    });
    timer.reset(&mut sleep, timer.now() + Duration::from_millis(500));
    let own = timer.clone();
    let woken = home.spawn(async move {
        sleep.await;
        own.now()
    });
    clock.advance(Duration::from_secs(2));
    let woken_at = woken.unwrap().wait().unwrap();
    assert!(woken_at <= timer.now() - Duration::from_secs(1));
    let due = timer.sleep_until(timer.now());
    assert!(is_due(&mut { due }));
}

#[test]
fn a_sleep_that_takes_over_the_entry_of_another_ends_at_its_own_deadline() {
    let clock = ManualClock::new();
    let home = EventLoop::builder("home").clock(&clock).build().unwrap();
    let timer = on(&home, || {
        let timer = LoopTimer::current();
        assert!(!is_due(&mut timer.sleep(Duration::from_secs(10))));
        timer
    });
    clock.advance(Duration::from_secs(5));
    for (seconds, due_after) in [(10, 10), (2, 2), (20, 20)] {
        let (timer, begin) = (timer.clone(), timer.now());
        let slept = home.spawn(async move {
            timer.sleep(Duration::from_secs(seconds)).await;
            timer.now() - begin
        });
        clock.advance(Duration::from_secs(30));
        let slept = slept.unwrap().wait().unwrap();
        let due_after = Duration::from_secs(due_after);
        assert!(slept >= due_after && slept < due_after + Duration::from_secs(1));
    }
}

#[test]
fn a_sleep_without_end_and_a_loop_that_ends_are_no_panic() {
    let clock = ManualClock::new();
    let home = EventLoop::builder("home").clock(&clock).build().unwrap();
    let mut sleep = on(&home, || {
        let mut sleep = LoopTimer::current().sleep(Duration::MAX);
        assert!(!is_due(&mut sleep));
        sleep
    });
    clock.advance(Duration::from_secs(1_000));
    assert!(!is_due(&mut sleep));
    let ended = home.shutdown(tidegate_loop::Quiet::none(Duration::from_secs(1)));
    clock.advance(Duration::from_secs(1));
    ended.wait().unwrap();
    assert!(is_due(&mut sleep), "nothing would wake it");
}
