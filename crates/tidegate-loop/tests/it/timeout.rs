//! Coarse timeouts: when they run, how they are cancelled and reset, from the event loop and from
//! other threads; and `sleep` and `timeout`, which are built on them.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidegate_core::{ManualClock, RejectReason};
use tidegate_loop::{
    BuildError, CoarseTimer, EventLoop, EventLoopBuilder, Sleep, SleepError, Timeout, TimeoutError,
    sleep, timeout,
};
use tidegate_testkit::{Counter, DropCount, Gate, Log, block_on};

use crate::{SECOND, builder, end, hold, home, watched};

const TICK: Duration = EventLoopBuilder::DEFAULT_COARSE_TICK;

fn counting(home: &EventLoop, after: Duration, counter: &Counter) -> CoarseTimer {
    let run = counter.hits();
    home.schedule_coarse(after, run).unwrap()
}

/// Runs `work` on the event loop and returns its result.
fn on_loop<T: Send + 'static>(home: &EventLoop, work: impl FnOnce() -> T + Send + 'static) -> T {
    home.submit(work).unwrap().wait().unwrap()
}

#[test]
fn never_early_and_at_most_a_tick_late() {
    let (home, clock) = home();
    let ran = Log::new();
    for millis in [7, 1, 3, 300, 3_000] {
        let (log, clock) = (ran.clone(), clock.clone());
        let after = Duration::from_millis(millis) + Duration::from_nanos(1);
        home.schedule_coarse(after, move || log.push((millis, clock.nanos())))
            .unwrap();
    }
    home.settle();
    clock.advance(SECOND * 4);
    let order: Vec<_> = ran.take();
    assert_eq!(order.len(), 5);
    for (millis, at) in order {
        let due = millis * 1_000_000 + 1;
        let latest = due + TICK.as_nanos() as u64;
        assert!(at >= due && at < latest, "{millis} ms ran at {at}");
    }
}

#[test]
fn an_idle_loop_is_not_woken_tick_by_tick() {
    let (home, clock) = home();
    let ran = Counter::new();
    counting(&home, SECOND * 3600, &ran);
    home.settle();
    let before = home.metrics();
    clock.advance(SECOND * 3600 + TICK);
    assert_eq!(ran.count(), 1);
    let after = home.metrics();
    // The wheel cascades between its levels a few times in this hour, which has 3.6 million ticks.
    assert!(
        after.sleeps - before.sleeps <= 8,
        "{} sleeps",
        after.sleeps - before.sleeps
    );
}

#[test]
fn a_timeout_set_on_the_loop_runs_there() {
    let (home, clock) = home();
    let ran_on_loop = on_loop(&home, || {
        let here = EventLoop::current().unwrap();
        let (promise, answer) = here.promise::<bool>();
        let loop_handle = here.clone();
        here.schedule_coarse(SECOND, move || {
            let _ = promise.succeed(loop_handle.is_current());
        })
        .unwrap();
        answer
    });
    clock.advance(SECOND + TICK);
    assert!(ran_on_loop.wait().unwrap());
}

#[test]
fn a_cancelled_timeout_never_runs_and_drops_its_closure_on_the_caller() {
    let (home, clock) = home();
    let ran = Counter::new();
    let drops = Counter::new();
    let held = DropCount::new(&drops);
    let count = ran.clone();
    let handle = home
        .schedule_coarse(SECOND, move || {
            let _held = &held;
            count.hit();
        })
        .unwrap();
    home.settle();
    // The event loop is held, so the cancellation drops the closure on this thread.
    let gate = hold(&home);
    assert!(handle.cancel());
    assert_eq!(drops.count(), 1);
    assert!(!handle.cancel(), "once is enough");
    assert!(handle.is_cancelled() && !handle.is_expired());
    gate.open();
    clock.advance(SECOND * 2);
    assert_eq!(ran.count(), 0);
    assert_eq!(home.metrics().timers_pending, 0, "its place is free again");
}

#[test]
fn cancelling_on_the_loop_frees_the_place_at_once() {
    let (home, _clock) = home();
    let pending = on_loop(&home, || {
        let here = EventLoop::current().unwrap();
        let handles: Vec<_> = (0..100)
            .map(|_| here.schedule_coarse(SECOND, || ()).unwrap())
            .collect();
        handles.iter().filter(|handle| handle.cancel()).count()
    });
    assert_eq!(pending, 100);
    home.settle();
    assert_eq!(home.metrics().timers_pending, 0);
}

#[test]
fn an_expired_timeout_cannot_be_cancelled_or_reset() {
    let (home, clock) = home();
    let ran = Counter::new();
    let handle = counting(&home, SECOND, &ran);
    home.settle();
    clock.advance(SECOND + TICK);
    assert_eq!(ran.count(), 1);
    assert!(handle.is_expired());
    assert!(!handle.cancel() && !handle.reset(SECOND));
    clock.advance(SECOND * 3);
    assert_eq!(ran.count(), 1);
}

#[test]
fn a_reset_on_another_thread_moves_the_deadline_both_ways() {
    let (home, clock) = home();
    let ran = Counter::new();
    let handle = counting(&home, SECOND * 10, &ran);
    home.settle();
    assert!(handle.reset(SECOND * 30));
    clock.advance(SECOND * 29);
    assert_eq!(ran.count(), 0, "it was given more time");
    assert!(handle.reset(SECOND * 100));
    assert!(handle.reset(SECOND * 5), "and less");
    home.settle();
    clock.advance(SECOND * 5 + TICK);
    assert_eq!(ran.count(), 1);
}

#[test]
fn a_reset_to_sooner_wakes_a_loop_that_has_not_taken_the_timer_yet() {
    let (home, clock) = home();
    let _sleeps_until = home.schedule(SECOND * 100, || ()).unwrap();
    home.settle();
    // Neither wakes the event loop: it would wake up early enough by itself.
    let ran = Counter::new();
    let handle = counting(&home, SECOND * 600, &ran);
    let slept = home.sleep(SECOND * 600);
    assert!(handle.reset(TICK) && slept.reset(TICK * 2));
    clock.advance(TICK * 4);
    assert!(ran.count() == 1 && slept.is_elapsed());
}

#[test]
fn a_reset_moves_the_deadline_both_ways_on_the_loop() {
    let (home, clock) = home();
    let ran = Counter::new();
    let handle = counting(&home, SECOND * 10, &ran);
    home.settle();
    let later = handle.clone();
    on_loop(&home, move || assert!(later.reset(SECOND * 30)));
    clock.advance(SECOND * 29);
    assert_eq!(ran.count(), 0);
    let sooner = handle.clone();
    on_loop(&home, move || assert!(sooner.reset(SECOND / 2)));
    clock.advance(SECOND / 2 + TICK);
    assert_eq!(ran.count(), 1);
}

#[test]
fn timeouts_may_add_cancel_and_reset_timeouts() {
    let (home, clock) = home();
    let log = Log::new();
    let (first, second) = (log.clone(), log.clone());
    let doomed = home
        .schedule_coarse(SECOND * 2, move || second.push("doomed"))
        .unwrap();
    home.schedule_coarse(SECOND, move || {
        first.push("first");
        assert!(doomed.cancel());
        let here = EventLoop::current().unwrap();
        here.schedule_coarse(SECOND, first.pushes("child")).unwrap();
    })
    .unwrap();
    home.settle();
    clock.advance(SECOND * 5);
    assert_eq!(log.take(), ["first", "child"]);
}

#[test]
fn a_panicking_timeout_is_reported_and_does_no_harm() {
    let clock = ManualClock::new();
    let (home, received) = watched(&clock);
    let ran = Counter::new();
    home.schedule_coarse(SECOND, || panic!("out of ink"))
        .unwrap();
    counting(&home, SECOND, &ran);
    home.settle();
    clock.advance(SECOND + TICK);
    assert_eq!(ran.count(), 1);
    let received = received.take();
    assert!(
        received.len() == 1 && received[0].contains("out of ink"),
        "{received:?}"
    );
}

#[test]
fn the_end_of_the_loop_cancels_what_waits() {
    let (home, _clock) = home();
    let drops = Counter::new();
    let (mine, theirs) = (DropCount::new(&drops), DropCount::new(&drops));
    let handle = home.schedule_coarse(SECOND, move || drop(mine)).unwrap();
    on_loop(&home, move || {
        let here = EventLoop::current().unwrap();
        here.schedule_coarse(SECOND, move || drop(theirs)).unwrap();
    });
    let report = end(&home);
    assert_eq!(report.cancelled, 2);
    assert_eq!(drops.count(), 2);
    assert!(handle.is_cancelled() && !handle.cancel() && !handle.reset(SECOND));
    let refused = home.schedule_coarse(SECOND, || ()).map(drop).unwrap_err();
    assert_eq!(refused.why(), RejectReason::Closed);
}

#[test]
fn a_sleeping_loop_is_woken_when_many_silent_signals_wait() {
    let (home, _clock) = home();
    // A timeout that keeps the event loop asleep for an hour, so that nothing below is due before
    // it.
    home.schedule_coarse(SECOND * 3600, || ()).unwrap();
    home.settle();
    let woken = home.metrics().wakeups;
    let add_and_cancel = || {
        let handle = home.schedule_coarse(SECOND * 7200, || ()).unwrap();
        assert!(handle.cancel());
    };
    // None of these is due before the event loop wakes up; only the count of silent signals wakes
    // it.
    (0..5000).for_each(|_| add_and_cancel());
    assert!(home.metrics().wakeups > woken);
    on_loop(&home, || ());
    home.settle();
    assert_eq!(home.metrics().timers_pending, 1);
}

#[test]
fn a_delay_too_long_to_be_counted_never_ends() {
    for tick in [TICK, Duration::from_nanos(1)] {
        let clock = ManualClock::new();
        let home = builder(&clock, "home").coarse_tick(tick).build().unwrap();
        let ran = Counter::new();
        let coarse = counting(&home, Duration::MAX, &ran);
        let precise = home.schedule(Duration::MAX, ran.hits()).unwrap();
        home.settle();
        for span in [SECOND * 3600 * 24 * 365, Duration::MAX, Duration::MAX] {
            clock.advance(span);
            // No deadline wakes the event loop here; other work does.
            on_loop(&home, || ());
        }
        assert_eq!(ran.count(), 0);
        assert!(coarse.cancel() && precise.cancel());
    }
}

#[test]
fn a_tick_of_zero_is_an_error() {
    let refused = EventLoop::builder("home")
        .coarse_tick(Duration::ZERO)
        .build();
    let why = refused.map(drop).unwrap_err();
    assert!(matches!(why, BuildError::BadTick(_)), "{why}");
}

#[test]
fn a_coarser_tick_is_later_and_never_early() {
    let clock = ManualClock::new();
    let home = builder(&clock, "home").coarse_tick(SECOND).build().unwrap();
    let ran = Counter::new();
    counting(&home, SECOND + Duration::from_nanos(1), &ran);
    home.settle();
    clock.advance(SECOND * 2 - Duration::from_nanos(1));
    assert_eq!(ran.count(), 0);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(ran.count(), 1);
}

#[test]
fn a_sleep_is_send_and_sync_and_ends_in_time() {
    fn needs_both<T: Send + Sync>(value: T) -> T {
        value
    }
    let (home, clock) = home();
    let slept = home.sleep(SECOND);
    let mut slept = pin!(needs_both(slept));
    let mut cx = Context::from_waker(Waker::noop());
    home.settle();
    assert_eq!(slept.as_mut().poll(&mut cx), Poll::Pending);
    clock.advance(SECOND + TICK);
    assert_eq!(slept.as_mut().poll(&mut cx), Poll::Ready(Ok(())));
    let limited: Timeout<std::future::Ready<u32>> = home.timeout(SECOND, std::future::ready(1));
    drop(needs_both(limited));
}

#[test]
fn a_sleep_on_the_loop_uses_the_loop_that_runs_it() {
    let (home, clock) = home();
    let slept = home.spawn(async { sleep(SECOND).await }).unwrap();
    home.settle();
    assert_eq!(home.metrics().timers_pending, 1);
    clock.advance(SECOND + TICK);
    assert_eq!(slept.wait().unwrap(), Ok(()));
}

#[test]
fn a_dropped_sleep_leaves_nothing_behind() {
    let (home, _clock) = home();
    drop(home.sleep(SECOND));
    // The cancellation does not wake the event loop; a task does.
    on_loop(&home, || ());
    home.settle();
    assert_eq!(home.metrics().timers_pending, 0);
}

#[test]
fn a_sleep_can_be_given_more_time() {
    let (home, clock) = home();
    let slept = home.sleep(SECOND);
    home.settle();
    assert!(slept.reset(SECOND * 5));
    clock.advance(SECOND * 4);
    assert!(!slept.is_elapsed());
    clock.advance(SECOND + TICK);
    assert!(slept.is_elapsed() && !slept.reset(SECOND));
}

#[test]
fn a_sleeper_is_notified_that_its_loop_has_ended() {
    let (home, _clock) = home();
    let slept: Sleep = home.sleep(SECOND);
    std::thread::scope(|threads| {
        let waits = threads.spawn(move || block_on("the sleep has ended", slept));
        end(&home);
        assert_eq!(waits.join().unwrap(), Err(SleepError));
    });
    assert_eq!(
        block_on("the sleep has ended", home.sleep(SECOND)),
        Err(SleepError)
    );
    let limited = home.timeout(SECOND, std::future::pending::<()>());
    assert_eq!(
        block_on("the limit has ended", limited),
        Err(TimeoutError::LoopEnded(SleepError))
    );
}

#[test]
fn a_future_in_time_wins_and_a_late_one_is_dropped() {
    let (home, clock) = home();
    let drops = Counter::new();
    let held = DropCount::new(&drops);
    let late = home
        .spawn(async move {
            let never = async move {
                let _held = held;
                std::future::pending::<()>().await;
            };
            timeout(SECOND, never).await
        })
        .unwrap();
    let quick = home
        .spawn(async { timeout(SECOND, std::future::ready(7)).await })
        .unwrap();
    assert_eq!(quick.wait().unwrap(), Ok(7));
    home.settle();
    clock.advance(SECOND + TICK);
    assert_eq!(late.wait().unwrap(), Err(TimeoutError::Elapsed));
    assert_eq!(drops.count(), 1);
}

#[test]
fn cancel_against_expiry_is_decided_once() {
    let (home, clock) = home();
    for _ in 0..200 {
        let ran = Counter::new();
        let handle = counting(&home, SECOND, &ran);
        home.settle();
        let (gate, go) = Gate::pair();
        let cancelled = std::thread::scope(|threads| {
            let cancels = threads.spawn(|| {
                go.wait();
                handle.cancel()
            });
            gate.open();
            clock.advance(SECOND + TICK);
            cancels.join().unwrap()
        });
        home.settle();
        assert_eq!(ran.count(), u64::from(!cancelled));
    }
}
