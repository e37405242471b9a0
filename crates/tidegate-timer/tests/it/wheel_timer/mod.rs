//! `WheelTimer` on a manual clock, which advances only when the test says so.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{ManualClock, RejectReason};
use tidegate_testkit::{Bomb, Counter, DropCount, Gate, Log, explode};
use tidegate_timer::wheel::WheelError;
use tidegate_timer::{TimerError, TimerTask, WheelTimer};

mod cancel;
mod dump;
mod firing;
mod payloads;
mod stop;
mod waiting;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Creates a timer with ticks of 10 ms, and its clock.
fn timer() -> (WheelTimer, ManualClock) {
    let clock = ManualClock::new();
    let timer = WheelTimer::builder("test")
        .clock(&clock)
        .tick(10 * MS)
        .slots(64);
    (timer.build().expect("a sound geometry"), clock)
}

#[test]
fn the_defaults_are_those_of_the_original() {
    assert_eq!(WheelTimer::DEFAULT_TICK, 100 * MS);
    assert_eq!(WheelTimer::DEFAULT_SLOTS, 512);
    let clock = ManualClock::new();
    let timer = WheelTimer::builder("test").clock(&clock);
    let timer = timer.build().expect("the defaults are sound");
    let fired = Counter::new();
    let count = fired.clone();
    let handle = timer.schedule(MS, move || count.note());
    handle.expect("no limit by default");
    clock.advance(99 * MS);
    assert_eq!(fired.count(), 0, "the default tick is 100 ms");
    clock.advance(MS);
    assert_eq!(fired.count(), 1);
}

#[test]
fn bad_geometry_is_an_error_value() {
    let build = |tick, slots| {
        let timer = WheelTimer::builder("test").tick(tick).slots(slots).build();
        timer.map(|timer| timer.pending())
    };
    let bad = |cause| Err(TimerError::Geometry(cause));
    assert_eq!(build(Duration::ZERO, 512), bad(WheelError::ZeroTick));
    assert_eq!(build(MS, 0), bad(WheelError::ZeroSlots));
    let slots = 1 << 40;
    assert_eq!(build(MS, slots), bad(WheelError::TooManySlots { slots }));
    let tick = Duration::MAX;
    assert_eq!(
        build(tick, 512),
        bad(WheelError::TurnTooLong { tick, slots: 512 })
    );
    assert_eq!(build(Duration::from_nanos(1), 1), Ok(0));
}

#[test]
fn starts_with_the_first_timeout_or_by_start_and_twice_is_fine() {
    let (timer, clock) = timer();
    assert_eq!(clock.sleepers(), 0, "no thread yet");
    timer.start().expect("it starts");
    timer.start().expect("twice is fine");
    clock.settle();
    assert_eq!(clock.sleepers(), 1);

    let (lazy, clock) = self::timer();
    let handle = lazy.schedule(SECOND, || ()).expect("it starts");
    clock.settle();
    assert_eq!(clock.sleepers(), 1);
    assert!(!handle.is_expired() && !handle.is_cancelled());
}

#[test]
fn an_idle_timer_sleeps_without_limit_and_wakes_for_nothing() {
    let (timer, clock) = timer();
    timer.start().expect("it starts");
    clock.advance(3600 * SECOND);
    assert_eq!(timer.metrics().wakeups, 0);
    assert_eq!(clock.next_deadline(), None);

    let fired = Counter::new();
    let count = fired.clone();
    timer
        .schedule(3600 * SECOND, move || count.note())
        .expect("it runs");
    clock.advance(3599 * SECOND);
    assert_eq!(
        timer.metrics().wakeups,
        1,
        "woken for the news, not by ticks"
    );
    clock.advance(SECOND);
    assert_eq!((fired.count(), timer.metrics().wakeups), (1, 2));
}

#[test]
fn a_later_timeout_does_not_wake_the_thread() {
    let (timer, clock) = timer();
    let first = timer.schedule(SECOND, || ()).expect("it runs");
    clock.settle();
    let before = timer.metrics().wakeups;
    for _ in 0..100 {
        timer.schedule(2 * SECOND, || ()).expect("it runs");
    }
    clock.settle();
    assert_eq!(timer.metrics().wakeups, before);
    clock.advance(2 * SECOND);
    assert!(first.is_expired());
    assert_eq!((timer.pending(), timer.metrics().fired), (0, 101));
}

#[test]
fn a_full_timer_gives_the_task_back() {
    let clock = ManualClock::new();
    let timer = WheelTimer::builder("test").clock(&clock).max_pending(2);
    let timer = timer.build().expect("a sound geometry");
    let first = timer.schedule(SECOND, || ()).expect("room for two");
    timer.schedule(SECOND, || ()).expect("room for two");

    let ran = Counter::new();
    let count = ran.clone();
    let refused = timer
        .schedule(SECOND, move || count.note())
        .expect_err("no room for three");
    assert_eq!(refused.why(), RejectReason::Full);
    refused.into_inner().run();
    assert_eq!((ran.count(), timer.pending()), (1, 2));

    assert!(first.cancel());
    timer
        .schedule(SECOND, || ())
        .expect("a cancelled timeout makes room at once");
    clock.advance(SECOND);
    timer.schedule(SECOND, || ()).expect("so do expired ones");
    assert_eq!(timer.metrics().refused, 1);
}

#[test]
fn a_thread_that_cannot_be_had_refuses_and_can_be_tried_again() {
    let fail = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let fails = Arc::clone(&fail);
    let threads = tidegate_core::ThreadBuilder::new("test").spawner(move |job| {
        if fails.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(std::io::Error::other("no room"));
        }
        std::thread::Builder::new().spawn(|| job.run()).map(drop)
    });
    let clock = ManualClock::new();
    let timer = WheelTimer::builder("test").clock(&clock).threads(threads);
    let timer = timer.build().expect("a sound geometry");
    assert_eq!(timer.start(), Err(TimerError::NoThread));
    let refused = timer.schedule(SECOND, || ()).expect_err("no thread");
    assert_eq!(
        (refused.why(), timer.pending()),
        (RejectReason::NoThread, 0)
    );
    fail.store(false, std::sync::atomic::Ordering::Relaxed);
    let handle = timer.schedule(SECOND, || ()).expect("there is one now");
    clock.advance(2 * SECOND);
    assert!(handle.is_expired());
    assert!(
        timer
            .shutdown()
            .wait()
            .is_ok_and(|report| report.unfired.is_empty())
    );
}
