//! Cancelling and resetting from any thread.

use super::*;

#[test]
fn a_cancel_wins_once_and_drops_the_task_here_and_now() {
    let (timer, clock) = timer();
    let drops = Counter::new();
    let value = DropCount::new(&drops);
    let handle = timer
        .schedule(SECOND, move || drop(value))
        .expect("it runs");
    clock.settle();
    assert!(handle.cancel());
    assert_eq!(
        (drops.count(), timer.pending()),
        (1, 0),
        "before the timer's thread has moved"
    );
    assert!(!handle.cancel() && !handle.clone().cancel());
    assert!(handle.is_cancelled() && !handle.is_expired());
    clock.advance(2 * SECOND);
    assert_eq!((timer.metrics().fired, timer.metrics().cancelled), (0, 1));
}

#[test]
fn an_expired_timeout_cannot_be_cancelled_or_reset() {
    let (timer, clock) = timer();
    let handle = timer.schedule(SECOND, || ()).expect("it runs");
    clock.advance(SECOND);
    assert!(handle.is_expired());
    assert!(!handle.cancel() && !handle.reset(SECOND) && !handle.is_cancelled());
    assert_eq!(timer.pending(), 0);
}

#[test]
fn the_cancel_callback_runs_where_the_cancel_does() {
    let (timer, _clock) = timer();
    let log = Log::new();
    let notified = log.clone();
    let task = TimerTask::new(|| ()).on_cancel(move || notified.push(std::thread::current().id()));
    let handle = timer.schedule_task(SECOND, task).expect("it runs");
    assert!(handle.cancel() && !handle.cancel());
    assert_eq!(log.take(), [std::thread::current().id()]);
}

#[test]
fn a_timeout_that_fires_gets_no_cancel_callback() {
    let (timer, clock) = timer();
    let (hooks, drops) = (Counter::new(), Counter::new());
    let (count, dropped) = (hooks.clone(), DropCount::new(&drops));
    let task = TimerTask::new(|| ()).on_cancel(move || {
        count.hit();
        drop(dropped);
    });
    timer.schedule_task(SECOND, task).expect("it runs");
    clock.advance(SECOND);
    assert_eq!((hooks.count(), drops.count()), (0, 1));
}

#[test]
fn a_cancel_callback_that_panics_is_contained() {
    let clock = ManualClock::new();
    let received = Counter::new();
    let notified = received.clone();
    let timer = WheelTimer::builder("test")
        .clock(&clock)
        .on_unhandled(move |_, _| {
            notified.hit();
        })
        .build()
        .expect("a sound geometry");
    let task = TimerTask::new(|| ()).on_cancel(|| panic!("on purpose"));
    let handle = timer.schedule_task(SECOND, task).expect("it runs");
    assert!(handle.cancel());
    received.wait_for(1);
    assert_eq!((received.count(), timer.pending()), (1, 0));
}

#[test]
fn cancelled_inside_the_tick_that_would_fire_it_is_counted_out_once() {
    let (timer, clock) = timer();
    let victims: Vec<_> = (0..3)
        .map(|_| timer.schedule(2 * SECOND, || ()).expect("it runs"))
        .collect();
    assert!(victims.iter().all(|victim| victim.reset(SECOND)));
    // A task of another timer cancels all of them.
    let killer = victims.clone();
    let (fresh, fresh_clock) = self::timer();
    fresh
        .schedule(SECOND, move || {
            killer.iter().for_each(|victim| assert!(victim.cancel()));
        })
        .expect("it runs");
    fresh_clock.advance(SECOND);
    assert_eq!(timer.pending(), 0);
    clock.advance(3 * SECOND);
    assert_eq!((timer.pending(), timer.metrics().fired), (0, 0));

    let (timer, clock) = self::timer();
    let later = Arc::new(std::sync::OnceLock::new());
    let victim = Arc::clone(&later);
    timer
        .schedule(SECOND, move || {
            let victim: &tidegate_timer::TimerHandle = victim.get().expect("set below");
            assert!(victim.cancel(), "due in this tick, and not fired yet");
        })
        .expect("it runs");
    let handle = timer.schedule(SECOND, || ()).expect("it runs");
    later.set(handle.clone()).expect("set once");
    clock.advance(SECOND);
    assert!(handle.is_cancelled());
    assert_eq!((timer.pending(), timer.metrics().fired), (0, 1));
}

#[test]
fn a_reset_moves_the_deadline_both_ways() {
    let (timer, clock) = timer();
    let handle = timer.schedule(10 * SECOND, || ()).expect("it runs");
    clock.advance(5 * SECOND);
    assert!(handle.reset(10 * SECOND), "later");
    clock.advance(9 * SECOND);
    assert!(!handle.is_expired());
    assert!(
        handle.reset(20 * MS),
        "sooner: the sleeping thread is woken"
    );
    clock.advance(20 * MS);
    assert!(handle.is_expired());
    assert_eq!(timer.metrics().fired, 1);
}

#[test]
fn many_threads_add_reset_and_cancel_and_each_timeout_ends_once() {
    let (timer, clock) = timer();
    let (fired, hooks) = (Counter::new(), Counter::new());
    let each = 2_000;
    std::thread::scope(|scope| {
        for thread in 0..3_u32 {
            let (timer, fired, hooks) = (&timer, &fired, &hooks);
            scope.spawn(move || {
                let mut handles = Vec::new();
                for number in 0..each {
                    let (fired, hooks) = (fired.clone(), hooks.clone());
                    let task = TimerTask::new(move || {
                        fired.hit();
                    })
                    .on_cancel(move || {
                        hooks.hit();
                    });
                    let after = MS * ((number * 7 + thread) % 500);
                    handles.push(timer.schedule_task(after, task).expect("it runs"));
                    let other = &handles[(number as usize * 31) % handles.len()];
                    match number % 3 {
                        0 => drop(other.cancel()),
                        1 => drop(other.reset(MS * (number % 700))),
                        _ => {}
                    }
                }
            });
        }
        for _ in 0..50 {
            clock.jump(10 * MS);
        }
    });
    clock.advance(2 * SECOND);
    let metrics = timer.metrics();
    assert_eq!(fired.count() + hooks.count(), 3 * u64::from(each));
    assert_eq!(
        (metrics.fired, metrics.cancelled),
        (fired.count(), hooks.count())
    );
    assert_eq!((metrics.pending, metrics.panicked), (0, 0));
}
