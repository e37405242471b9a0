//! What happens to a task that does not fit into the queue.

use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use tidegate_core::Blocking;
use tidegate_core::{ManualClock, RejectReason, Rejected, Task};
use tidegate_loop::{BuildError, EventLoop, Quiet, RejectPolicy};
use tidegate_testkit::{Counter, Log, Stop, until};

use crate::{SECOND, builder, hold, on};

fn bounded(clock: &ManualClock, reject: RejectPolicy) -> EventLoop {
    let builder = builder(clock, "home").bound(16).reject(reject);
    builder.build().unwrap()
}

fn backoff(attempts: u32) -> RejectPolicy {
    RejectPolicy::Backoff {
        attempts,
        pause: SECOND,
    }
}

/// Fills the queue of a held event loop. The running task still occupies a slot.
fn fill(home: &EventLoop) {
    while home.pending_tasks() < 15 {
        home.execute(|| ()).unwrap();
    }
}

/// Advances the clock until the waiting thread has returned.
fn turn_until_finished<T>(clock: &ManualClock, waiting: &ScopedJoinHandle<'_, T>) {
    until("the waiting thread has returned", || {
        let finished = waiting.is_finished();
        if !finished {
            clock.jump(SECOND / 8);
        }
        finished
    });
}

#[test]
fn a_full_loop_gives_the_task_back_and_it_can_run() {
    let clock = ManualClock::new();
    let home = bounded(&clock, RejectPolicy::default());
    let gate = hold(&home);
    let accepted = (0..40).filter(|_| home.execute(|| ()).is_ok()).count();
    assert!((15..=16).contains(&accepted), "{accepted}");
    let (ran, count) = Counter::pair();
    let refused = home.execute(move || count.note()).unwrap_err();
    assert_eq!(refused.why(), RejectReason::Full);
    assert!(refused.to_string().contains("try again later or shed load"));
    refused.into_inner().run();
    assert_eq!(ran.count(), 1);
    assert!(home.metrics().refused >= 25);
    gate.open();
    home.settle();
    home.execute(|| ()).unwrap();
}

#[test]
fn a_refused_submission_hands_out_no_completion() {
    let clock = ManualClock::new();
    let home = bounded(&clock, RejectPolicy::Fail);
    let gate = hold(&home);
    while home.execute(|| ()).is_ok() {}
    let refused = home.submit(|| 7).map(|_| ()).unwrap_err();
    assert_eq!(refused.why(), RejectReason::Full);
    gate.open();
}

#[test]
fn a_bound_below_sixteen_is_raised_to_it() {
    let clock = ManualClock::new();
    for bound in [0, 1, 15] {
        let home = builder(&clock, "home").bound(bound).build().unwrap();
        let gate = hold(&home);
        let accepted = (0..40).filter(|_| home.execute(|| ()).is_ok()).count();
        assert!((15..=16).contains(&accepted), "{bound}: {accepted}");
        gate.open();
        home.settle();
    }
}

#[test]
fn what_a_loop_gives_itself_counts_against_its_bound() {
    let clock = ManualClock::new();
    let home = bounded(&clock, RejectPolicy::Fail);
    let handle = home.clone();
    let accepted = home.submit(move || (0..40).filter(|_| handle.execute(|| ()).is_ok()).count());
    let accepted = accepted.unwrap().wait().unwrap();
    assert!((15..=16).contains(&accepted), "{accepted}");
    home.settle();
    assert_eq!(home.pending_tasks(), 0);
    let (handle, stop) = (home.clone(), Stop::new());
    let inside = stop.closure();
    home.execute(move || {
        while handle.execute(|| ()).is_ok() {}
        inside();
    })
    .unwrap();
    stop.reached();
    assert_eq!(home.execute(|| ()).unwrap_err().why(), RejectReason::Full);
    stop.go_on();
    home.settle();
}

#[test]
fn backoff_pauses_and_succeeds_when_room_appears() {
    let clock = ManualClock::new();
    let home = bounded(&clock, backoff(5));
    let (gate, ran) = (hold(&home), Counter::new());
    fill(&home);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| home.execute(ran.hits()));
        for _ in 0..3 {
            clock.await_sleepers(1);
            clock.jump(SECOND);
        }
        gate.open();
        // Otherwise the clock would use up the attempts before there is room.
        until("the loop has room", || home.pending_tasks() < 15);
        // The submitter pauses once more, or has already found room.
        turn_until_finished(&clock, &waiting);
        waiting.join().unwrap().unwrap();
    });
    ran.wait_for(1);
}

#[test]
fn backoff_gives_the_task_back_after_its_attempts() {
    let clock = ManualClock::new();
    let home = bounded(&clock, backoff(3));
    let gate = hold(&home);
    fill(&home);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| home.execute(|| ()));
        turn_until_finished(&clock, &waiting);
        assert_eq!(
            waiting.join().unwrap().unwrap_err().why(),
            RejectReason::Full
        );
    });
    assert!(clock.nanos() >= 3_000_000_000, "three pauses");
    gate.open();
}

#[test]
fn backoff_inside_the_loop_fails_at_once() {
    let clock = ManualClock::new();
    let home = bounded(&clock, backoff(1000));
    let handle = home.clone();
    let refused = home.submit(move || {
        let mut refused = None;
        while refused.is_none() {
            refused = Blocking::allow(|| handle.execute(|| ()).err());
        }
        refused.map(|refused| refused.why())
    });
    assert_eq!(refused.unwrap().wait().unwrap(), Some(RejectReason::Full));
    assert_eq!(clock.nanos(), 0);
}

#[test]
fn backoff_does_not_block_another_loop() {
    let clock = ManualClock::new();
    let (home, other) = (bounded(&clock, backoff(1000)), on(&clock, "other"));
    let gate = hold(&home);
    fill(&home);
    let handle = home.clone();
    let refused = other.submit(move || handle.execute(|| ()).unwrap_err().why());
    assert_eq!(refused.unwrap().wait().unwrap(), RejectReason::Full);
    assert_eq!(clock.nanos(), 0);
    gate.open();
}

#[test]
fn backoff_stops_when_the_loop_shuts_down() {
    let clock = ManualClock::new();
    let home = bounded(&clock, backoff(1_000_000));
    let gate = hold(&home);
    fill(&home);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| home.execute(|| ()));
        clock.await_sleepers(1);
        let ended = home.shutdown(Quiet::none(Duration::ZERO));
        gate.open();
        ended.wait().unwrap();
        clock.jump(SECOND);
        assert_eq!(
            waiting.join().unwrap().unwrap_err().why(),
            RejectReason::Closed
        );
    });
}

#[test]
fn a_backoff_without_attempts_is_an_error() {
    let clock = ManualClock::new();
    let error = builder(&clock, "home").reject(backoff(0)).build();
    let error = error.unwrap_err();
    assert!(matches!(error, BuildError::NoAttempts));
    assert!(error.to_string().contains("use `RejectPolicy::Fail`"));
}

#[test]
fn a_closure_decides_on_the_submitters_thread() {
    let clock = ManualClock::new();
    let (log, seen) = Log::pair();
    let decide = move |refused: Rejected<Task>| {
        seen.push(thread::current().id());
        match refused.why() {
            RejectReason::Full => {
                refused.into_inner().run();
                Ok(())
            }
            _ => Err(refused),
        }
    };
    let home = bounded(&clock, RejectPolicy::With(Arc::new(decide)));
    let gate = hold(&home);
    while log.is_empty() {
        home.execute(|| ()).unwrap();
    }
    assert_eq!(log.take(), [thread::current().id()]);
    // Tasks that the policy ran count as accepted.
    assert_eq!(home.submit(|| 7).unwrap().wait().unwrap(), 7);
    let future = home.spawn(async { 7 }).map(drop).unwrap_err();
    assert_eq!(future.why(), RejectReason::Full, "no loop would poll it");
    let refused = home.metrics().refused;
    assert_eq!(refused, 0);
    gate.open();
    home.settle();
    let answer = home.spawn(future.into_inner()).unwrap();
    assert_eq!(answer.wait().unwrap(), 7, "it came back whole");
}

#[test]
fn a_future_whose_task_the_policy_drops_is_refused() {
    let clock = ManualClock::new();
    let drops = |refused: Rejected<Task>| {
        drop(refused);
        Ok(())
    };
    let home = bounded(&clock, RejectPolicy::With(Arc::new(drops)));
    let gate = hold(&home);
    let spawn = || home.spawn(async { 7 });
    let (taken, refused): (Vec<_>, Vec<_>) = (0..40).map(|_| spawn()).partition(Result::is_ok);
    assert!(taken.len() <= 16 && refused.len() >= 24);
    gate.open();
    for answer in taken.into_iter().flatten() {
        assert_eq!(answer.wait().unwrap(), 7);
    }
}

#[test]
fn a_closed_loop_refuses_whatever_the_policy() {
    let clock = ManualClock::new();
    let (asked, count) = Counter::pair();
    let decide = move |refused: Rejected<Task>| {
        count.hit();
        Err(refused)
    };
    for policy in [backoff(1000), RejectPolicy::With(Arc::new(decide))] {
        let home = bounded(&clock, policy);
        home.shutdown(Quiet::none(SECOND)).wait().unwrap();
        assert_eq!(home.execute(|| ()).unwrap_err().why(), RejectReason::Closed);
    }
    assert_eq!((asked.count(), clock.nanos()), (0, 0));
}

#[test]
fn room_appears_after_the_task_that_runs_not_after_the_batch() {
    let clock = ManualClock::new();
    let home = bounded(&clock, RejectPolicy::Fail);
    let first = hold(&home);
    let stop = Stop::new();
    home.execute(stop.closure()).unwrap();
    while home.execute(|| ()).is_ok() {}
    first.open();
    stop.reached();
    // The first task and this one were taken in one batch. Because of the refusal above, the event
    // loop published its progress in between.
    home.execute(|| ()).unwrap();
    stop.go_on();
    home.settle();
}

#[test]
fn an_endless_pause_for_room_ends_with_the_loop() {
    let clock = ManualClock::new();
    let reject = RejectPolicy::Backoff {
        attempts: 3,
        pause: Duration::MAX,
    };
    let home = bounded(&clock, reject);
    let gate = hold(&home);
    fill(&home);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| home.execute(|| ()));
        clock.await_sleepers(1);
        let ended = home.shutdown(Quiet::none(SECOND));
        gate.open();
        ended.wait().unwrap();
        let refused = waiting.join().unwrap().unwrap_err();
        assert_eq!(refused.why(), RejectReason::Closed);
    });
}
