//! When scheduled and periodic tasks run, in which order, and on which threads.

use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_pool::{Missed, PeriodError};
use tidegate_testkit::{Counter, Log, Stop};

use super::{Target, fixed, for_both, hold, log_time};
use crate::SECOND;

#[test]
fn an_hour_of_minutes_runs_sixty_one_times() {
    for_both(|target, clock| {
        let runs = Counter::new();
        let minute = SECOND * 60;
        let ticks = target.at_fixed_rate(Duration::ZERO, minute, runs.hits());
        clock.advance(minute * 60);
        assert_eq!(runs.count(), 61);
        assert!(ticks.unwrap().cancel());
    });
}

#[test]
fn a_task_runs_on_its_executor_and_never_early() {
    for_both(|target, clock| {
        let here = target.clone();
        let (times, log) = (Log::new(), clock.clone());
        let noted = times.clone();
        let answer = target.schedule(SECOND, move || {
            noted.push(log.nanos());
            here.is_current()
        });
        clock.advance(SECOND - Duration::from_nanos(1));
        assert!(times.is_empty());
        clock.advance(Duration::from_nanos(1));
        assert!(answer.unwrap().wait().unwrap());
        assert_eq!(times.take(), [1_000_000_000]);
    });
}

#[test]
fn a_delay_of_zero_runs_at_once() {
    for_both(|target, _| {
        let answer = target.schedule(Duration::ZERO, || 7).unwrap();
        assert_eq!(answer.wait().unwrap(), 7);
    });
}

#[test]
fn a_delay_too_long_to_count_never_ends_and_does_no_harm() {
    for_both(|target, clock| {
        let (runs, count) = Counter::pair();
        let never = target.schedule(Duration::MAX, move || count.hit()).unwrap();
        let once = target.at_fixed_rate(SECOND, Duration::MAX, runs.hits());
        let delayed = target.with_fixed_delay(SECOND, Duration::MAX, runs.hits());
        clock.advance(SECOND * 3600 * 24 * 365);
        assert_eq!(runs.count(), 2, "the first run of each periodic task");
        assert!(never.cancel() && once.unwrap().cancel() && delayed.unwrap().cancel());
    });
}

#[test]
fn a_period_of_zero_is_an_error() {
    for_both(|target, _| {
        let rate = target.at_fixed_rate(SECOND, Duration::ZERO, || ());
        let delay = target.with_fixed_delay(SECOND, Duration::ZERO, || ());
        for refused in [rate, delay] {
            assert_eq!(refused.unwrap_err(), PeriodError::Zero);
        }
    });
}

#[test]
fn runs_by_deadline_then_by_the_order_of_scheduling() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 64).build().unwrap();
    let log = Log::new();
    let note = |name: &'static str| log.pushes(name);
    let ticks = pool.schedule_at_fixed_rate(SECOND, SECOND, note("tick"));
    let last = pool.schedule(SECOND * 3, note("last")).unwrap();
    pool.schedule(SECOND * 2, note("first")).unwrap();
    pool.schedule(SECOND * 2, note("second")).unwrap();
    // The thread is busy while all of them become due, so they wait in the queue in their order.
    let gate = hold(&pool);
    clock.await_sleepers(1);
    clock.jump(SECOND * 3);
    clock.await_sleepers(1);
    gate.open();
    last.wait().unwrap();
    clock.settle();
    let mut ran = log.take();
    ran.truncate(4);
    assert_eq!(ran, ["tick", "first", "second", "last"]);
    ticks.unwrap().cancel();
}

#[test]
fn a_thousand_tasks_run_once_each_in_order() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 2000).build().unwrap();
    let log = Log::new();
    for number in (0..1000_u64).rev() {
        let after = Duration::from_millis(number);
        pool.schedule(after, log.pushes(number)).unwrap();
    }
    clock.settle();
    assert_eq!(pool.metrics().scheduled, 999, "one is due already");
    clock.advance(SECOND);
    assert!(log.take().into_iter().eq(0..1000));
    assert_eq!(pool.metrics().scheduled, 0);
}

#[test]
fn the_timer_has_no_thread_before_the_first_schedule() {
    let clock = ManualClock::new();
    let pool = fixed(&clock, 1, 8).build().unwrap();
    pool.submit(|| ()).unwrap().wait().unwrap();
    clock.settle();
    assert_eq!(clock.sleepers(), 1, "the worker");
    pool.schedule(SECOND, || ()).unwrap();
    pool.schedule(SECOND * 2, || ()).unwrap();
    clock.settle();
    assert_eq!(clock.sleepers(), 2, "and the timer's thread");
}

#[test]
fn a_task_may_schedule_and_cancel_others() {
    for_both(|target, clock| {
        let (here, log) = (target.clone(), Log::new());
        let (first, second) = (log.clone(), log.clone());
        let victim = target.schedule(SECOND * 2, move || first.push("victim"));
        let victim = victim.unwrap();
        let answer = target.schedule(SECOND, move || {
            assert!(victim.cancel());
            here.schedule(SECOND, move || second.push("next"))
        });
        clock.advance(SECOND * 3);
        drop(answer);
        assert_eq!(log.take(), ["next"]);
    });
}

/// Returns the times of the runs, in milliseconds, of a task with a period of one second whose run
/// at 1 s takes until 4.5 s.
fn after_a_stall(target: &Target, clock: &ManualClock, missed: Missed) -> Vec<u64> {
    let (log, stop) = (Log::new(), Stop::new());
    let (mut note, inside) = (log_time(clock, &log), stop.closure());
    let ticks = target.at_rate(SECOND, SECOND, missed, move || {
        note();
        inside();
    });
    clock.jump(SECOND);
    stop.reached();
    clock.jump(SECOND * 7 / 2);
    stop.go_on();
    clock.settle();
    clock.advance(SECOND * 5 / 2);
    assert!(ticks.unwrap().cancel());
    log.take()
}

#[test]
fn missed_runs_follow_back_to_back_or_are_skipped_or_start_anew() {
    let burst = [1000, 4500, 4500, 4500, 5000, 6000, 7000];
    let runs: [(_, &[u64]); 3] = [
        (Missed::Burst, &burst),
        (Missed::Skip, &[1000, 5000, 6000, 7000]),
        (Missed::Delay, &[1000, 5500, 6500]),
    ];
    for (missed, expected) in runs {
        for_both(|target, clock| {
            assert_eq!(after_a_stall(target, clock, missed), expected);
        });
    }
}

#[test]
fn a_fixed_delay_counts_from_the_end_of_a_run() {
    for_both(|target, clock| {
        let (log, stop) = (Log::new(), Stop::new());
        let (mut note, inside) = (log_time(clock, &log), stop.closure());
        let ticks = target.with_fixed_delay(SECOND, SECOND, move || {
            note();
            inside();
        });
        clock.jump(SECOND);
        stop.reached();
        clock.jump(SECOND * 2);
        stop.go_on();
        clock.settle();
        clock.advance(SECOND * 2);
        assert_eq!(log.take(), [1000, 4000, 5000]);
        assert!(ticks.unwrap().cancel());
    });
}

#[test]
fn a_periodic_task_does_not_overlap_itself_and_delays_no_other() {
    for_both(|target, clock| {
        let stop = Stop::new();
        let (begun, ended) = (Counter::new(), Counter::new());
        let (inside, at_once, done) = (stop.closure(), begun.clone(), ended.clone());
        let ticks = target.at_fixed_rate(SECOND, SECOND, move || {
            assert_eq!(at_once.hit(), done.count() + 1, "two at once");
            inside();
            done.hit();
        });
        clock.jump(SECOND);
        stop.reached();
        clock.jump(SECOND * 9);
        if let Target::Pool(pool) = target {
            let other = pool.schedule(Duration::ZERO, || 7).unwrap();
            assert_eq!(other.wait().unwrap(), 7, "the pool has another thread");
        }
        assert_eq!(begun.count(), 1);
        stop.go_on();
        ended.wait_for(10);
        clock.settle();
        assert_eq!(ended.count(), 10, "those that were missed");
        assert!(ticks.unwrap().cancel());
    });
}

#[test]
fn a_panic_ends_a_task_with_that_cause_and_no_other() {
    for_both(|target, clock| {
        let runs = Counter::new();
        let (count, other) = (runs.clone(), Counter::new());
        let broken = target.at_fixed_rate(SECOND, SECOND, move || {
            assert!(count.hit() < 3, "out of ink");
        });
        let once = target.schedule(SECOND, || -> u32 { panic!("no paper") });
        let sound = target.at_fixed_rate(SECOND, SECOND, other.hits());
        clock.advance(SECOND * 10);
        let cause = broken.unwrap().wait().unwrap_err().to_string();
        assert!(cause.contains("out of ink"), "{cause}");
        let cause = once.unwrap().wait().unwrap_err().to_string();
        assert!(cause.contains("no paper"), "{cause}");
        assert_eq!((runs.count(), other.count()), (3, 10));
        assert!(sound.unwrap().cancel());
    });
}
