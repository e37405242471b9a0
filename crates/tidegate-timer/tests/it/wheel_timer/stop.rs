//! The shutdown of a timer: no timeout is lost, and none is returned twice.

use super::*;

#[test]
fn stop_returns_each_unfired_timeout_once_by_deadline() {
    let (timer, clock) = timer();
    let log = Log::new();
    let add = |after: u32| {
        let log = log.clone();
        let handle = timer.schedule(after * SECOND, move || log.push(after));
        handle.expect("it runs")
    };
    let (late, fired, soon, cancelled) = (add(9), add(1), add(4), add(5));
    clock.advance(2 * SECOND);
    assert!(cancelled.cancel());
    // Two timeouts that the timer's thread has not seen yet.
    let (unseen, again) = (add(6), add(8));
    assert!(again.reset(3 * SECOND));

    let unfired = timer.shutdown().wait().expect("not its own thread").unfired;
    let remaining: Vec<_> = unfired.iter().map(|one| one.remaining.as_secs()).collect();
    assert_eq!(remaining, [2, 3, 6, 7]);
    assert!(
        [&late, &soon, &unseen, &again]
            .iter()
            .all(|one| one.is_cancelled())
    );
    assert!(fired.is_expired() && !late.cancel() && !late.reset(SECOND));
    assert_eq!(timer.pending(), 0);
    for one in unfired {
        one.task.run();
    }
    assert_eq!(log.take(), [1, 4, 8, 6, 9]);
    assert!(
        timer
            .shutdown()
            .wait()
            .is_ok_and(|report| report.unfired.is_empty()),
        "a second stop"
    );
}

#[test]
fn a_timer_that_never_started_stops_at_once_with_nothing() {
    let (timer, clock) = timer();
    assert!(
        timer
            .shutdown()
            .wait()
            .is_ok_and(|report| report.unfired.is_empty())
    );
    assert_eq!(timer.start(), Err(TimerError::Stopped));
    assert_eq!(clock.sleepers(), 0);
}

#[test]
fn nothing_can_be_added_after_stop_and_the_task_comes_back() {
    let (timer, _clock) = timer();
    timer.start().expect("it starts");
    drop(timer.shutdown().wait().expect("not its own thread"));
    assert_eq!(timer.start(), Err(TimerError::Stopped));
    let ran = Counter::new();
    let count = ran.clone();
    let refused = timer.schedule(SECOND, move || {
        count.hit();
    });
    let refused = refused.expect_err("it has stopped");
    assert_eq!((refused.why(), timer.pending()), (RejectReason::Closed, 0));
    refused.into_inner().run();
    assert_eq!(ran.count(), 1);
}

#[test]
fn stop_runs_the_cancel_callbacks_and_counts_the_timeouts_out() {
    let (timer, clock) = timer();
    let hooks = Counter::new();
    for _ in 0..3 {
        let count = hooks.clone();
        let task = TimerTask::new(|| ()).on_cancel(move || {
            count.hit();
        });
        timer.schedule_task(SECOND, task).expect("it runs");
    }
    clock.settle();
    assert_eq!(
        timer
            .shutdown()
            .wait()
            .expect("not its own thread")
            .unfired
            .len(),
        3
    );
    assert_eq!((hooks.count(), timer.pending()), (3, 0));
}

#[test]
fn a_wait_in_a_task_on_the_timers_thread_is_an_error_and_loses_nothing() {
    let (timer, clock) = timer();
    let log = Log::new();
    let (inner, notified) = (timer.clone(), log.clone());
    timer
        .schedule(SECOND, move || {
            let mut shutdown = inner.shutdown();
            let refused = shutdown.wait().unwrap_err();
            notified.push((refused, shutdown));
        })
        .expect("it runs");
    let other = timer.schedule(2 * SECOND, || ()).expect("it runs");
    clock.settle();
    clock.jump(SECOND);
    log.wait_for(1);
    let (refused, mut shutdown) = log.take().remove(0);
    assert_eq!(refused, TimerError::OwnThread);
    assert_eq!(shutdown.wait().expect("another thread").unfired.len(), 1);
    assert!(other.is_cancelled());
    assert!(
        shutdown
            .wait()
            .is_ok_and(|report| report.unfired.is_empty())
    );
}

#[test]
fn stop_waits_for_the_task_that_runs() {
    let (timer, clock) = timer();
    let (began, go_on, ended) = (Gate::new(), Gate::new(), Counter::new());
    let (begin, wait, end) = (began.clone(), go_on.clone(), ended.clone());
    timer
        .schedule(SECOND, move || {
            begin.open();
            wait.wait();
            end.hit();
        })
        .expect("it runs");
    clock.settle();
    clock.jump(SECOND);
    began.wait();
    std::thread::scope(|scope| {
        let stopper = scope.spawn(|| timer.shutdown().wait());
        go_on.open();
        let stopped = stopper.join().expect("it does not panic");
        assert!(stopped.is_ok_and(|report| report.unfired.is_empty()));
        assert_eq!(ended.count(), 1);
    });
}

#[test]
fn every_timeout_is_fired_cancelled_refused_or_returned_while_a_stop_comes() {
    for round in 0..20 {
        let (timer, clock) = timer();
        timer.start().expect("it starts");
        let (fired, dropped) = (Counter::new(), Counter::new());
        let mut ends = 0;
        std::thread::scope(|scope| {
            let adder = scope.spawn(|| {
                let (mut refused, mut cancelled) = (0, 0);
                for number in 0..200_u32 {
                    let (count, value) = (fired.clone(), DropCount::new(&dropped));
                    let run = move || {
                        count.hit();
                        drop(value);
                    };
                    match timer.schedule(MS * (number % 40), run) {
                        Ok(handle) if number % 5 == 0 => cancelled += u64::from(handle.cancel()),
                        Ok(_) => {}
                        Err(_) => refused += 1,
                    }
                }
                refused + cancelled
            });
            clock.jump(MS * round);
            ends += timer
                .shutdown()
                .wait()
                .expect("not its own thread")
                .unfired
                .len() as u64;
            ends += adder.join().expect("it does not panic");
        });
        assert_eq!((ends + fired.count(), timer.pending()), (200, 0));
        assert_eq!(dropped.count(), 200, "every task was dropped");
    }
}

#[test]
fn dropping_the_last_handle_cancels_what_is_pending() {
    let (timer, clock) = timer();
    let hooks = Counter::new();
    let count = hooks.clone();
    let task = TimerTask::new(|| ()).on_cancel(move || {
        count.hit();
    });
    let handle = timer.schedule_task(SECOND, task).expect("it runs");
    clock.settle();
    drop(timer.clone());
    assert!(!handle.is_cancelled());
    drop(timer);
    assert!(handle.is_cancelled());
    assert_eq!(hooks.count(), 1);
    clock.advance(2 * SECOND);
    assert!(!handle.is_expired());
}

#[test]
fn the_last_handle_may_be_dropped_on_the_timers_own_thread() {
    let (timer, clock) = timer();
    let (remaining, hooks) = (Counter::new(), Counter::new());
    let count = hooks.clone();
    let task = TimerTask::new(|| ()).on_cancel(move || {
        count.hit();
    });
    let pending = timer.schedule_task(5 * SECOND, task).expect("it runs");
    let (inner, count) = (timer.clone(), remaining.clone());
    timer
        .schedule(SECOND, move || {
            drop(inner);
            count.hit();
        })
        .expect("it runs");
    drop(timer);
    clock.advance(SECOND);
    remaining.wait_for(1);
    hooks.wait_for(1);
    assert!(pending.is_cancelled());
}
