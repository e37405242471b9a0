//! Scheduled tasks: when they run, what they do about lost time, and how they are cancelled.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::{ManualClock, RejectReason};
use tidegate_loop::{EventLoop, Missed, PeriodError, Quiet};
use tidegate_promise::{Completion, Failure};
use tidegate_testkit::{Counter, DropCount, Gate, Log, Stop};

use crate::{SECOND, builder, end, hold, home, watched};

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Returns a closure that logs the whole seconds of its clock.
fn log_time(clock: &ManualClock, log: &Log<u64>) -> impl FnMut() + Send + 'static + use<> {
    let (clock, log) = (clock.clone(), log.clone());
    move || log.push(clock.nanos() / 1_000_000_000)
}

#[test]
fn an_hour_of_minutes_runs_sixty_one_times() {
    let (home, clock) = home();
    let (counted, count) = Counter::pair();
    let _tick = home
        .schedule_at_fixed_rate(Duration::ZERO, seconds(60), move || count.note())
        .unwrap();
    clock.advance(seconds(3600));
    home.settle();
    assert_eq!(counted.count(), 61);
}

#[test]
fn a_year_passes_in_a_moment() {
    let (home, clock) = home();
    let year = seconds(365 * 24 * 3600);
    let (day, count) = Counter::pair();
    let _tick =
        home.schedule_at_fixed_rate(Duration::ZERO, seconds(24 * 3600), move || count.note());
    let once = home.schedule(year, || "happy new year").unwrap();
    clock.advance(year - Duration::from_nanos(1));
    assert!(!once.is_done());
    assert_eq!(day.count(), 365);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(once.wait().unwrap(), "happy new year");
}

#[test]
fn runs_by_deadline_then_by_the_order_of_scheduling() {
    let (home, clock) = home();
    let log = Log::new();
    let mut kept = Vec::new();
    for (name, after) in [("c", 3), ("a", 1), ("d", 3), ("b", 2), ("e", 3)] {
        kept.push(home.schedule(seconds(after), log.pushes(name)).unwrap());
    }
    clock.advance(seconds(5));
    assert_eq!(log.take(), ["a", "b", "c", "d", "e"]);
}

#[test]
fn a_periodic_task_keeps_its_place_among_equals() {
    let (home, clock) = home();
    let log = Log::new();
    let (first, second) = (log.clone(), log.clone());
    let _a = home.schedule_at_fixed_rate(SECOND, SECOND, move || first.push("a"));
    let _b = home.schedule_at_fixed_rate(SECOND, SECOND, move || second.push("b"));
    clock.advance(seconds(3));
    assert_eq!(log.take(), ["a", "b", "a", "b", "a", "b"]);
}

#[test]
fn never_early() {
    let (home, clock) = home();
    let ran = home.schedule(seconds(10), || ()).unwrap();
    clock.advance(seconds(10) - Duration::from_nanos(1));
    assert!(!ran.is_done());
    clock.advance(Duration::from_nanos(1));
    assert!(ran.is_done());
}

#[test]
fn a_delay_of_zero_runs_at_once() {
    let (home, _clock) = home();
    assert_eq!(
        home.schedule(Duration::ZERO, || 7).unwrap().wait().unwrap(),
        7
    );
    let handle = home.clone();
    let inner = home.submit(move || handle.schedule(Duration::ZERO, || 8).unwrap());
    assert_eq!(inner.unwrap().wait().unwrap().wait().unwrap(), 8);
}

#[test]
fn a_delay_too_long_to_count_never_ends_and_does_no_harm() {
    let (home, clock) = home();
    clock.advance(SECOND);
    let never = home.schedule(Duration::MAX, || ()).unwrap();
    let _rate = home.schedule_at_fixed_rate(SECOND, Duration::MAX, || ());
    let _delay = home.schedule_with_fixed_delay(SECOND, Duration::MAX, || ());
    let handle = home.clone();
    let inside = home.submit(move || handle.schedule(Duration::MAX, || ()).unwrap());
    let inside = inside.unwrap().wait().unwrap();
    clock.advance(seconds(100 * 365 * 24 * 3600));
    assert!(!never.is_done() && !inside.is_done());
    assert!(never.cancel());
    assert_eq!(home.submit(|| 1).unwrap().wait().unwrap(), 1);
    assert_eq!(end(&home).cancelled, 3);
    assert!(inside.is_cancelled());
}

#[test]
fn a_period_of_zero_is_an_error() {
    let (home, _clock) = home();
    let rate = home.schedule_at_fixed_rate(SECOND, Duration::ZERO, || ());
    assert_eq!(rate.unwrap_err(), PeriodError::Zero);
    let delay = home.schedule_with_fixed_delay(SECOND, Duration::ZERO, || ());
    let error = delay.unwrap_err();
    assert!(error.to_string().contains("at least 1 ns"), "{error}");
}

/// Runs a task with a period of one second through a stall from 1 s to 4.5 s. Returns the seconds
/// of its runs until 7 s.
fn after_a_stall(missed: Missed) -> Vec<u64> {
    let (home, clock) = home();
    let (log, stop) = (Log::new(), Stop::new());
    let (mut note, inside) = (log_time(&clock, &log), stop.closure());
    let tick = home.schedule_at_rate(SECOND, SECOND, missed, move || {
        note();
        inside();
    });
    home.settle();
    clock.jump(SECOND);
    stop.reached();
    clock.jump(Duration::from_millis(3500));
    stop.go_on();
    home.settle();
    clock.advance(Duration::from_millis(2500));
    tick.unwrap().cancel();
    log.take()
}

#[test]
fn burst_makes_up_for_missed_runs_back_to_back() {
    assert_eq!(Missed::default(), Missed::Burst);
    assert_eq!(after_a_stall(Missed::Burst), [1, 4, 4, 4, 5, 6, 7]);
}

#[test]
fn skip_leaves_missed_runs_out_and_keeps_to_the_times() {
    assert_eq!(after_a_stall(Missed::Skip), [1, 5, 6, 7]);
}

#[test]
fn delay_counts_anew_from_the_late_run() {
    // From 4.5 s on: 5.5 s and 6.5 s.
    assert_eq!(after_a_stall(Missed::Delay), [1, 5, 6]);
}

#[test]
fn a_fixed_delay_counts_from_the_end_of_a_run() {
    let (home, clock) = home();
    let (log, turn) = (Log::new(), clock.clone());
    let mut note = log_time(&clock, &log);
    let _tick = home.schedule_with_fixed_delay(SECOND, seconds(10), move || {
        note();
        turn.jump(seconds(5));
    });
    home.settle();
    clock.advance(seconds(40));
    // Starts at 1, ends at 6; starts at 16, ends at 21; and so on.
    assert_eq!(log.take(), [1, 16, 31]);
}

#[test]
fn a_periodic_completion_never_succeeds() {
    let (home, clock) = home();
    let tick = home.schedule_at_fixed_rate(SECOND, SECOND, || ()).unwrap();
    clock.advance(seconds(100));
    assert!(!tick.is_done() && tick.is_cancellable());
    assert!(tick.cancel() && tick.is_cancelled());
}

#[test]
fn a_panic_ends_a_periodic_task_with_that_cause() {
    let clock = ManualClock::new();
    let (home, received) = watched(&clock);
    let (runs, drops) = (Counter::new(), Counter::new());
    let (count, captured) = (runs.clone(), DropCount::new(&drops));
    let tick = home.schedule_at_fixed_rate(SECOND, SECOND, move || {
        let _captured = &captured;
        assert!(count.hit() < 3, "on purpose");
    });
    clock.advance(seconds(10));
    assert_eq!((runs.count(), drops.count()), (3, 1));
    let failure: Failure = tick.unwrap().wait().unwrap_err().failure().unwrap();
    assert!(failure.is_panic() && failure.to_string().contains("on purpose"));
    assert!(received.is_empty());
    assert_eq!(home.metrics().timers_pending, 0);
}

#[test]
fn a_panic_in_a_one_shot_fails_its_completion() {
    let (home, clock) = home();
    let once = home.schedule(SECOND, || -> u32 { panic!("on purpose") });
    clock.advance(SECOND);
    let failure = once.unwrap().wait().unwrap_err().failure().unwrap();
    assert!(failure.is_panic());
}

#[test]
fn cancelling_on_another_thread_frees_the_closure_at_once_and_does_not_wake_the_loop() {
    let (home, _clock) = home();
    let drops = Counter::new();
    // If the event loop already sleeps for the first timer, a timer with the same deadline does not
    // wake it, and is counted only when the event loop wakes up.
    let gate = hold(&home);
    let captured = DropCount::new(&drops);
    let once = home.schedule(SECOND, move || drop(captured)).unwrap();
    let captured = DropCount::new(&drops);
    let rate = home.schedule_at_fixed_rate(SECOND, SECOND, move || {
        let _captured = &captured;
    });
    let rate = rate.unwrap();
    gate.open();
    home.settle();
    let before = home.metrics();
    assert_eq!(before.timers_pending, 2);
    assert!(once.cancel() && rate.cancel());
    assert_eq!(drops.count(), 2, "freed by the canceller");
    home.settle();
    let after = home.metrics();
    assert_eq!((after.wakeups, after.turns), (before.wakeups, before.turns));
    home.execute(|| ()).unwrap();
    home.settle();
    assert_eq!(home.metrics().timers_pending, 0, "the next turn");
}

#[test]
fn cancelling_on_the_loop_frees_closure_and_place_at_once() {
    let (home, _clock) = home();
    let drops = Counter::new();
    let (captured, handle, count) = (DropCount::new(&drops), home.clone(), drops.clone());
    let seen = home.submit(move || {
        let once = handle.schedule(SECOND, move || drop(captured)).unwrap();
        (once.cancel(), count.count())
    });
    assert_eq!(seen.unwrap().wait().unwrap(), (true, 1));
    home.settle();
    assert_eq!(home.metrics().timers_pending, 0);
}

#[test]
fn a_timer_cancelled_on_its_way_to_the_loop_leaves_nothing() {
    let (home, clock) = home();
    let gate = hold(&home);
    let (ran, count) = Counter::pair();
    let once = home.schedule(SECOND, move || count.hit()).unwrap();
    assert!(once.cancel());
    gate.open();
    clock.advance(seconds(2));
    assert_eq!((ran.count(), home.metrics().timers_run), (0, 0));
    assert_eq!(home.metrics().timers_pending, 0);
}

#[test]
fn a_cancel_inside_its_own_run_prevents_the_next_one() {
    let (home, clock) = home();
    let (runs, drops) = (Counter::new(), Counter::new());
    let slot: Arc<Mutex<Option<Completion<()>>>> = Arc::default();
    let (me, count, captured) = (Arc::clone(&slot), runs.clone(), DropCount::new(&drops));
    let tick = home.schedule_at_fixed_rate(SECOND, SECOND, move || {
        let _captured = &captured;
        if count.hit() == 2 {
            assert!(me.lock().unwrap().as_ref().unwrap().cancel());
        }
    });
    *slot.lock().unwrap() = Some(tick.unwrap());
    clock.advance(seconds(10));
    assert_eq!((runs.count(), drops.count()), (2, 1));
    assert!(slot.lock().unwrap().as_ref().unwrap().is_cancelled());
    assert_eq!(home.metrics().timers_pending, 0);
}

#[test]
fn a_cancel_on_another_thread_during_a_run_prevents_the_next_one() {
    let (home, clock) = home();
    let (runs, stop) = (Counter::new(), Stop::new());
    let (count, inside) = (runs.clone(), stop.closure());
    let tick = home.schedule_at_fixed_rate(SECOND, SECOND, move || {
        count.hit();
        inside();
    });
    home.settle();
    clock.jump(SECOND);
    stop.reached();
    assert!(tick.unwrap().cancel());
    stop.go_on();
    clock.advance(seconds(5));
    assert_eq!(runs.count(), 1);
}

#[test]
fn cancels_against_runs_never_let_one_run_too_many() {
    let (home, clock) = home();
    for _ in 0..200 {
        let (runs, cancelled) = (Counter::new(), Arc::new(AtomicBool::new(false)));
        let (count, flag) = (runs.clone(), Arc::clone(&cancelled));
        let tick = home.schedule_at_fixed_rate(Duration::ZERO, SECOND, move || {
            // No run may start after `cancel` has returned.
            assert!(!flag.load(Ordering::SeqCst));
            count.hit();
        });
        let tick = tick.unwrap();
        runs.wait_for(1);
        clock.jump(SECOND);
        assert!(tick.cancel(), "it never fails nor succeeds");
        home.settle();
        cancelled.store(true, Ordering::SeqCst);
        clock.advance(SECOND);
        assert!(tick.is_cancelled());
    }
    assert_eq!(home.metrics().timers_pending, 0);
}

#[test]
fn a_one_shot_that_has_started_cannot_be_cancelled() {
    let (home, clock) = home();
    let stop = Stop::new();
    let inside = stop.closure();
    let once = home.schedule(SECOND, move || {
        inside();
        7
    });
    let once = once.unwrap();
    home.settle();
    clock.jump(SECOND);
    stop.reached();
    assert!(!once.cancel());
    stop.go_on();
    assert_eq!(once.wait().unwrap(), 7);
}

#[test]
fn wakes_a_sleeping_loop_only_for_an_earlier_deadline() {
    let (home, clock) = home();
    let _first = home.schedule(seconds(10), || ()).unwrap();
    home.settle();
    let before = home.metrics().wakeups;
    let later = home.schedule(seconds(20), || ()).unwrap();
    let same = home.schedule(seconds(10), || ()).unwrap();
    home.settle();
    assert_eq!(home.metrics().wakeups, before);
    let earlier = home.schedule(seconds(5), || ()).unwrap();
    home.settle();
    assert_eq!(home.metrics().wakeups, before + 1);
    clock.advance(seconds(5));
    assert!(earlier.is_done() && !same.is_done());
    clock.advance(seconds(5));
    assert!(same.is_done() && !later.is_done());
    clock.advance(seconds(10));
    assert!(later.is_done());
}

#[test]
fn a_loop_without_timers_sleeps_without_limit() {
    let (home, clock) = home();
    home.submit(|| ()).unwrap().wait().unwrap();
    home.settle();
    assert_eq!(clock.next_deadline(), None);
    let once = home.schedule(SECOND, || ()).unwrap();
    home.settle();
    assert_eq!(clock.next_deadline(), Some(clock.now() + SECOND));
    clock.advance(SECOND);
    assert!(once.is_done());
    assert_eq!(clock.next_deadline(), None);
}

#[test]
fn a_queue_that_is_never_empty_does_not_starve_timers() {
    fn again(home: EventLoop, clock: ManualClock, stop: Arc<AtomicBool>) {
        if !stop.load(Ordering::SeqCst) {
            clock.jump(Duration::from_millis(1));
            let next = home.clone();
            home.execute(move || again(next, clock, stop)).unwrap();
        }
    }
    let (home, clock) = home();
    let (stop, fired) = (Arc::new(AtomicBool::new(false)), Gate::new());
    let (handle, flag, open) = (home.clone(), Arc::clone(&stop), fired.clone());
    let turning = clock.clone();
    home.execute(move || again(handle, turning, flag)).unwrap();
    let _timer = home.schedule(SECOND, move || open.open()).unwrap();
    fired.wait();
    stop.store(true, Ordering::SeqCst);
    home.settle();
}

#[test]
fn a_flood_of_due_timers_does_not_starve_tasks() {
    let (home, clock) = home();
    let (runs, count) = Counter::pair();
    // Overdue for good: with a period of 1 ns the runs never make up for the jump below.
    let tick = home.schedule_at_fixed_rate(Duration::ZERO, Duration::from_nanos(1), move || {
        count.note()
    });
    home.settle();
    clock.jump(seconds(1000));
    assert_eq!(home.submit(|| 7).unwrap().wait().unwrap(), 7);
    assert!(tick.unwrap().cancel());
    home.settle();
    assert!(runs.count() > 0);
}

#[test]
fn schedules_on_the_loop_need_no_signal_and_no_wakeup() {
    let (home, clock) = home();
    let (handle, log) = (home.clone(), Log::new());
    let note = log_time(&clock, &log);
    home.submit(|| ()).unwrap().wait().unwrap();
    home.settle();
    let before = home.metrics().wakeups;
    home.execute(move || drop(handle.schedule(SECOND, note).unwrap()))
        .unwrap();
    clock.advance(seconds(2));
    assert_eq!(log.take(), [1]);
    assert_eq!(home.metrics().wakeups, before + 1, "for the task only");
}

#[test]
fn a_full_lane_refuses_no_schedule() {
    let clock = ManualClock::new();
    let home = builder(&clock, "home").bound(16).build().unwrap();
    let gate = hold(&home);
    while home.execute(|| ()).is_ok() {}
    let ran = Counter::new();
    for _ in 0..100 {
        drop(home.schedule(SECOND, ran.hits()).unwrap());
    }
    gate.open();
    clock.advance(SECOND);
    assert_eq!(ran.count(), 100, "dropping a completion detaches");
}

#[test]
fn a_thousand_timers_run_once_each_in_order() {
    let (home, clock) = home();
    let log = Log::new();
    for number in 0..1000_u64 {
        let after = seconds(1 + number * 7919 % 1000);
        drop(home.schedule(after, log.pushes(after)).unwrap());
    }
    clock.advance(seconds(2000));
    let times = log.take();
    assert!(times.len() == 1000 && times.is_sorted());
}

#[test]
fn a_schedule_during_shutdown_is_refused() {
    let (home, clock) = home();
    let pending = home.schedule(SECOND, || ()).unwrap();
    let rate = home.schedule_at_fixed_rate(SECOND, SECOND, || ()).unwrap();
    home.settle();
    let ended = home.shutdown(Quiet {
        period: seconds(5),
        timeout: seconds(10),
    });
    let refused = home.schedule(SECOND, || 7).unwrap_err();
    assert_eq!(refused.why(), RejectReason::Closed);
    assert_eq!(refused.into_inner()(), 7);
    let refused = home.schedule_at_fixed_rate(SECOND, SECOND, || ());
    assert_eq!(refused.unwrap_err(), PeriodError::Closed);
    clock.advance(seconds(6));
    assert_eq!(ended.wait().unwrap().cancelled, 2);
    assert!(pending.is_cancelled() && rate.is_cancelled());
}

#[test]
fn a_periodic_task_that_runs_when_shutdown_comes_is_not_put_back() {
    let (home, clock) = home();
    let (stop, runs) = (Stop::new(), Counter::new());
    let (inside, count) = (stop.closure(), runs.clone());
    let tick = home.schedule_at_fixed_rate(SECOND, SECOND, move || {
        count.hit();
        inside();
    });
    home.settle();
    clock.jump(SECOND);
    stop.reached();
    let ended = home.shutdown(Quiet::none(seconds(10)));
    clock.jump(seconds(3));
    stop.go_on();
    ended.wait().unwrap();
    assert_eq!(runs.count(), 1);
    assert!(tick.unwrap().is_cancelled());
}

/// A value whose drop uses the event loop and then panics.
struct Troublesome(EventLoop, Counter);

impl Drop for Troublesome {
    fn drop(&mut self) {
        self.1.hit();
        let _ = self.0.schedule(SECOND, || ());
        let _ = self.0.execute(|| ());
        let _ = EventLoop::current();
        panic!("on purpose, in a drop");
    }
}

#[test]
fn closures_whose_drop_uses_the_loop_and_panics_do_no_harm() {
    let clock = ManualClock::new();
    let (home, received) = watched(&clock);
    let drops = Counter::new();
    let one = || Troublesome(home.clone(), drops.clone());
    let (trouble, more) = (one(), one());
    let elsewhere = home.schedule(SECOND, move || drop(trouble)).unwrap();
    let rate = home.schedule_at_fixed_rate(SECOND, SECOND, move || {
        let _more = &more;
    });
    home.settle();
    assert!(elsewhere.cancel() && rate.unwrap().cancel());
    let (trouble, handle) = (one(), home.clone());
    let inside = home.submit(move || {
        let once = handle.schedule(SECOND, move || drop(trouble)).unwrap();
        once.cancel()
    });
    assert!(inside.unwrap().wait().unwrap());
    home.settle();
    assert_eq!((drops.count(), received.len()), (3, 3));
    for _ in 0..2 {
        let trouble = one();
        drop(home.schedule(SECOND * 9, move || drop(trouble)).unwrap());
    }
    end(&home);
    assert_eq!((drops.count(), received.len()), (5, 5));
}
