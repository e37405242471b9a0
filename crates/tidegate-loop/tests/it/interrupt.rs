//! Every wait on an event loop ends with an error when its token is tripped.

use std::thread;
use std::time::Duration;

use tidegate_core::{CancelToken, InterruptedError, ManualClock, RejectReason};
use tidegate_loop::{EventLoop, EventLoopGroup, InactivityError, Quiet, RejectPolicy};
use tidegate_promise::WaitError;
use tidegate_testkit::{Counter, Gate};

use crate::{SECOND, builder, hits, hold, home};

/// Returns a held event loop whose queue is full and whose back-off does not end by itself.
fn full(clock: &ManualClock) -> (EventLoop, Gate) {
    let reject = RejectPolicy::Backoff {
        attempts: 3,
        pause: Duration::MAX,
    };
    let home = builder(clock, "home").bound(16).reject(reject);
    let home = home.build().unwrap();
    let gate = hold(&home);
    while home.pending_tasks() < 15 {
        home.execute(|| ()).unwrap();
    }
    (home, gate)
}

/// Waits on another thread, trips the token once that thread sleeps, and returns the wait's result.
fn interrupted<T: Send>(clock: &ManualClock, wait: impl FnOnce(&CancelToken) -> T + Send) -> T {
    let token = CancelToken::new();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| wait(&token));
        clock.await_sleepers(1);
        assert!(!waiting.is_finished());
        token.cancel();
        waiting.join().unwrap()
    })
}

#[test]
fn a_wait_for_the_end_is_interrupted() {
    let (home, clock) = home();
    let gate = hold(&home);
    let ended = interrupted(&clock, |token| {
        home.await_termination_with_cancel(Duration::MAX, token)
    });
    assert_eq!(ended, Err(WaitError::Interrupted));
    assert!(!home.is_shutting_down());
    gate.open();
}

#[test]
fn a_wait_for_the_end_of_a_group_is_interrupted() {
    let clock = ManualClock::new();
    let group = EventLoopGroup::builder("io").loops(2).clock(&clock);
    let group = group.build().unwrap();
    let gates: Vec<_> = group.iter().map(hold).collect();
    let ended = interrupted(&clock, |token| {
        group.await_termination_with_cancel(Duration::MAX, token)
    });
    assert_eq!(ended, Err(WaitError::Interrupted));
    gates.iter().for_each(Gate::open);
}

#[test]
fn a_wait_for_the_loss_of_the_thread_is_interrupted() {
    let (home, clock) = home();
    let gate = hold(&home);
    let ended = interrupted(&clock, |token| {
        home.await_inactivity_with_cancel(Duration::MAX, token)
    });
    let error = ended.unwrap_err();
    assert_eq!(error, InactivityError::Interrupted);
    assert!(error.to_string().contains("interrupted"));
    gate.open();
}

#[test]
fn a_token_that_is_not_tripped_changes_nothing() {
    let (home, _clock) = home();
    home.execute(|| ()).unwrap();
    let token = CancelToken::new();
    assert_eq!(home.settle_with_cancel(&token), Ok(()));
    assert_eq!(
        home.await_termination_with_cancel(Duration::ZERO, &token),
        Ok(false)
    );
    assert_eq!(
        home.await_inactivity_with_cancel(Duration::ZERO, &token),
        Ok(false)
    );
    home.shutdown(Quiet::none(SECOND)).wait().unwrap();
    assert_eq!(
        home.await_termination_with_cancel(Duration::MAX, &token),
        Ok(true)
    );
}

#[test]
fn a_tripped_token_comes_before_what_is_already_there() {
    let (home, _clock) = home();
    home.shutdown(Quiet::none(SECOND)).wait().unwrap();
    let token = CancelToken::new();
    token.cancel();
    let ended = home.await_termination_with_cancel(Duration::ZERO, &token);
    assert_eq!(ended, Err(WaitError::Interrupted));
}

#[test]
fn an_endless_pause_for_room_is_interrupted_and_gives_the_task_back() {
    let clock = ManualClock::new();
    let ((home, gate), ran) = (full(&clock), Counter::new());
    let count = ran.clone();
    let refused = interrupted(&clock, |token| home.execute_with_cancel(hits(count), token));
    let refused = refused.unwrap_err();
    assert_eq!(refused.why(), RejectReason::Interrupted);
    assert!(refused.to_string().contains("interrupted"));
    assert_eq!(ran.count(), 0);
    refused.into_inner().run();
    assert_eq!(ran.count(), 1);
    let refused = interrupted(&clock, |token| {
        home.submit_with_cancel(|| 7, token).map(|_| ())
    });
    assert_eq!(refused.unwrap_err().why(), RejectReason::Interrupted);
    gate.open();
}

#[test]
fn a_tripped_token_does_not_keep_a_task_from_a_loop_with_room() {
    let (home, _clock) = home();
    let token = CancelToken::new();
    token.cancel();
    let answer = home.submit_with_cancel(|| 7, &token).unwrap();
    assert_eq!(answer.wait().unwrap(), 7);
}

#[test]
fn an_endless_pause_for_room_ends_with_the_loop() {
    let clock = ManualClock::new();
    let (home, gate) = full(&clock);
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

#[test]
fn settling_is_interrupted_on_either_clock() {
    let plain = EventLoop::builder("home").build().unwrap();
    for home in [home().0, plain] {
        let (gate, token) = (hold(&home), CancelToken::new());
        thread::scope(|scope| {
            let waiting = scope.spawn(|| home.settle_with_cancel(&token));
            token.cancel();
            assert_eq!(waiting.join().unwrap(), Err(InterruptedError));
        });
        gate.open();
        assert_eq!(home.settle_with_cancel(&CancelToken::new()), Ok(()));
    }
}
