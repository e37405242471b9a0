//! The caller that starts a shared run can leave it like the others, and every caller knows whether
//! the work has begun.

use std::task::Poll;
use std::thread;

use tidegate_core::ManualClock;
use tidegate_isolate::{
    CancelOutcome, Cause, Event, Interrupt, Isolation, Rejection, RequestContext, Retry,
};
use tidegate_testkit::{Counter, Gate, Log, until};

use crate::interrupt::Held;
use crate::support::{
    Numbers, SECOND, alone, builder, hold, interruptible, poll_once, pool, pool_of, still, waiting,
    with_handle,
};

fn with_permits() -> (ManualClock, Isolation, Numbers) {
    alone(|c| c.no_timeout().configure(|c| c.interrupt_on_cancel = true))
}

/// A command with one permit, whose callers wait for it.
fn patient() -> (ManualClock, Isolation, Numbers) {
    alone(|c| c.permits(waiting(1, SECOND)).no_timeout())
}

#[test]
fn a_blocking_first_caller_leaves_its_run_to_the_others() {
    for asked in [Interrupt::Yes, Interrupt::No] {
        let (_clock, isolation, command) = interruptible(1);
        let (request, held) = (RequestContext::new(), Held::default());
        let (call, handle) = with_handle(command.call().cache_key("k").context(&request));
        thread::scope(|scope| {
            let work = held.work();
            let first = scope.spawn(move || call.run(work));
            held.inside.wait();
            assert!(handle.has_begun());
            let other = command.call().cache_key("k").context(&request);
            let other = other.queue(|_| panic!("it shares the run"));
            assert_eq!(handle.cancel(asked), CancelOutcome::Running);
            let error = first.join().unwrap().unwrap_err();
            assert_eq!(error.cause(), &Cause::Cancelled, "it returns at once");
            assert_eq!(handle.cancel(Interrupt::Yes), CancelOutcome::TooLate);
            assert!(!held.is_interrupted() && !other.is_done());
            held.go_on.open();
            assert_eq!(other.wait().unwrap(), 7);
        });
        let totals = command.snapshot().totals;
        assert_eq!((totals[Event::Success], totals[Event::Cancelled]), (1, 0));
        assert_eq!(pool(&isolation).accepted, 1);
    }
}

#[test]
fn a_run_is_cancelled_with_its_first_caller_if_nobody_shares_it() {
    for (asked, interrupted) in [(Interrupt::Yes, true), (Interrupt::No, false)] {
        let (_clock, isolation, command) = interruptible(1);
        let (request, held) = (RequestContext::new(), Held::default());
        let (call, handle) = with_handle(command.call().cache_key("k").context(&request));
        thread::scope(|scope| {
            let work = held.work();
            let first = scope.spawn(move || call.run(work));
            held.inside.wait();
            assert_eq!(handle.cancel(asked), CancelOutcome::Running);
            let error = first.join().unwrap().unwrap_err();
            assert_eq!(error.cause(), &Cause::Cancelled);
        });
        assert_eq!(held.is_interrupted(), interrupted);
        assert_eq!(pool(&isolation).overstaying, 1);
        held.go_on.open();
        until("no call overstays", || pool(&isolation).overstaying == 0);
        let again = command.call().cache_key("k").context(&request);
        assert_eq!(again.run(|_| Ok(8)), Ok(8), "the key is free again");
        assert_eq!(command.snapshot().totals[Event::Cancelled], 1, "one run");
    }
}

#[test]
fn a_first_caller_whose_run_is_queued_takes_it_out() {
    let (_clock, isolation, command) = interruptible(1);
    let (request, go_on) = (RequestContext::new(), Gate::new());
    let held = hold(&command, &go_on);
    let (call, handle) = with_handle(command.call().cache_key("k").context(&request));
    thread::scope(|scope| {
        let first = scope.spawn(move || call.run(|_| panic!("must not run")));
        until("it is queued", || pool(&isolation).queued == 1);
        assert!(!handle.has_begun());
        let outcome = handle.cancel(Interrupt::Yes);
        assert_eq!(outcome, CancelOutcome::NotBegun);
        let error = first.join().unwrap().unwrap_err();
        assert_eq!(error.cause(), &Cause::Cancelled);
    });
    assert_eq!(pool(&isolation).queued, 0);
    assert!(!handle.has_begun());
    go_on.open();
    held.wait().unwrap();
}

#[test]
fn a_first_caller_that_was_cancelled_before_submits_nothing() {
    for threads in [true, false] {
        let (_clock, _isolation, command) = match threads {
            true => interruptible(1),
            false => with_permits(),
        };
        let request = RequestContext::new();
        let (call, handle) = with_handle(command.call().cache_key("k").context(&request));
        assert_eq!(handle.cancel(Interrupt::Yes), CancelOutcome::NotBegun);
        let error = call.run(|_| panic!("must not run")).unwrap_err();
        assert_eq!(error.cause(), &Cause::Cancelled);
        assert_eq!(handle.cancel(Interrupt::Yes), CancelOutcome::TooLate);
        assert!(!handle.has_begun());
        assert_eq!(command.snapshot().totals[Event::Cancelled], 1);
        let again = command.call().cache_key("k").context(&request);
        assert_eq!(again.run(|_| Ok(8)), Ok(8), "the key is free again");
    }
}

/// Its own thread runs the work, so it cannot return earlier.
#[test]
fn a_first_caller_with_permits_gives_up_its_interest() {
    for (shared, queues) in [(true, false), (false, false), (true, true), (false, true)] {
        let (_clock, _isolation, command) = with_permits();
        let (request, held) = (RequestContext::new(), Held::default());
        let (call, handle) = with_handle(command.call().cache_key("k").context(&request));
        thread::scope(|scope| {
            let work = held.work();
            let first = scope.spawn(move || match queues {
                true => call.queue(work).wait().map_err(|_| ()),
                false => call.run(work).map_err(|_| ()),
            });
            held.inside.wait();
            assert!(handle.has_begun());
            let other = shared.then(|| {
                let other = command.call().cache_key("k").context(&request);
                other.queue(|_| panic!("it shares the run"))
            });
            assert_eq!(handle.cancel(Interrupt::Yes), CancelOutcome::Running);
            assert_eq!(handle.cancel(Interrupt::Yes), CancelOutcome::TooLate);
            assert_eq!(held.is_interrupted(), !shared);
            if let Some(other) = other {
                assert!(other.cancel());
                assert!(held.is_interrupted(), "the last of them has left");
            }
            held.go_on.open();
            assert_eq!(first.join().unwrap(), Ok(7));
        });
        assert_eq!(handle.cancel(Interrupt::Yes), CancelOutcome::TooLate);
    }
}

#[test]
fn a_cancel_ends_the_attempts_of_a_retry_that_others_may_share() {
    let (clock, _isolation, command) = with_permits();
    let retry = Retry::attempts(5).backoff(SECOND, 1.0).when(|_| true);
    let (request, tried) = (RequestContext::new(), Counter::new());
    let (call, handle) = with_handle(command.call().cache_key("k").context(&request));
    thread::scope(|scope| {
        let first = scope.spawn(|| {
            retry.run(call, |attempt| {
                tried.hit();
                attempt.run(|_| Err("no"))
            })
        });
        until("it pauses", || clock.next_deadline().is_some());
        assert!(handle.has_begun(), "in the first attempt");
        assert_ne!(handle.cancel(Interrupt::Yes), CancelOutcome::TooLate);
        let error = first.join().unwrap().unwrap_err();
        assert_eq!(error.cause(), &Cause::Cancelled);
    });
    assert_eq!(tried.count(), 1);
}

#[test]
fn the_run_of_a_first_caller_times_out_once_and_falls_back_once() {
    let (clock, isolation) = still();
    let fallen = Counter::new();
    let falls = fallen.clone();
    let command = builder("a").threads(pool_of(1, 8)).timeout(SECOND);
    let command = command.fallback(move |_| {
        falls.hit();
        Ok(9)
    });
    let command = command.build(&isolation).unwrap();
    let (request, held) = (RequestContext::new(), Held::default());
    let (call, handle) = with_handle(command.call().cache_key("k").context(&request));
    thread::scope(|scope| {
        let work = held.work();
        let first = scope.spawn(move || call.run(work));
        held.inside.wait();
        clock.jump(SECOND);
        assert_eq!(first.join().unwrap(), Ok(9));
    });
    assert_eq!(handle.cancel(Interrupt::Yes), CancelOutcome::TooLate);
    assert_eq!(
        (command.snapshot().totals[Event::Timeout], fallen.count()),
        (1, 1)
    );
    held.go_on.open();
}

#[test]
fn a_first_caller_that_may_not_wait_is_refused_before_its_work_is_submitted() {
    let (_clock, isolation, command) = interruptible(1);
    let inner = command.clone();
    let cause = command.queue(move |_| {
        let (call, _handle) =
            with_handle(inner.call().cache_key("k").context(&RequestContext::new()));
        let error = call.run(|_| panic!("must not run")).unwrap_err();
        assert_eq!(error.cause(), &Cause::Rejected(Rejection::Deadlock));
        Ok(1)
    });
    assert_eq!(cause.wait().unwrap(), 1);
    assert_eq!(pool(&isolation).accepted, 1);
}

#[test]
fn cancels_of_first_callers_race_with_the_ends_of_their_runs() {
    let (_clock, _isolation, command) = interruptible(2);
    for _ in 0..300 {
        let request = RequestContext::new();
        let mut call = command.call().cache_key("k").context(&request);
        let (handle, go, ends) = (call.handle(), Gate::new(), Log::new());
        thread::scope(|scope| {
            let (start, ended) = (go.clone(), ends.clone());
            scope.spawn(move || {
                start.wait();
                ended.push(call.run(|_| Ok(1)).map_err(|error| error.into_cause()));
            });
            let shares = command.call().cache_key("k").context(&request);
            let (start, ended) = (go.clone(), ends.clone());
            scope.spawn(move || {
                start.wait();
                ended.push(shares.run(|_| Ok(1)).map_err(|error| error.into_cause()));
            });
            go.open();
            handle.cancel(Interrupt::Yes);
        });
        let ends = ends.take();
        assert_eq!(ends.len(), 2);
        let ok = |end: &Result<u32, Cause<&str>>| matches!(end, Ok(1) | Err(Cause::Cancelled));
        assert!(ends.iter().all(ok), "{ends:?}");
        assert!(ends.contains(&Ok(1)), "the other caller did not cancel");
    }
    until("no call is left", || command.snapshot().active == 0);
}

/// A run that waits in the queue of the pool has not begun, also if its caller has no handle.
#[test]
fn a_sharer_of_a_queued_run_knows_that_it_has_not_begun() {
    let (_clock, isolation, command) = interruptible(1);
    let (request, go_on) = (RequestContext::new(), Gate::new());
    let held = hold(&command, &go_on);
    thread::scope(|scope| {
        let first = command.call().cache_key("k").context(&request);
        let first = scope.spawn(move || first.run(|_| Ok(7)));
        until("it is queued", || pool(&isolation).queued == 1);
        let (call, handle) = with_handle(command.call().cache_key("k").context(&request));
        let other = call.queue(|_| panic!("it shares the run"));
        assert!(!handle.has_begun());
        go_on.open();
        assert_eq!(first.join().unwrap(), Ok(7));
        assert_eq!(other.wait().unwrap(), 7);
        assert!(handle.has_begun());
    });
    held.wait().unwrap();
}

#[test]
fn sharers_of_a_future_know_whether_its_work_has_begun() {
    for has_handle in [true, false] {
        let (_clock, _isolation, command) = patient();
        let request = RequestContext::new();
        let mut occupied = Box::pin(command.run_async(|_| std::future::pending()));
        assert!(poll_once(occupied.as_mut()).is_pending());
        let mut call = command.call().cache_key("k").context(&request);
        let mine = has_handle.then(|| call.handle());
        let go_on = Gate::new();
        let goes = go_on.clone();
        let mut run = Box::pin(call.run_async(|_| {
            std::future::poll_fn(move |_| match goes.is_open() {
                true => Poll::Ready(Ok(7)),
                false => Poll::Pending,
            })
        }));
        assert!(poll_once(run.as_mut()).is_pending());
        let (call, queued) = with_handle(command.call().cache_key("k").context(&request));
        let answer = call.queue(|_| panic!("it shares the run"));
        let (call, follows) = with_handle(command.call().cache_key("k").context(&request));
        let mut follower = Box::pin(call.run_async(|_| std::future::pending()));
        assert!(poll_once(follower.as_mut()).is_pending());
        let handles = || mine.iter().chain([&queued, &follows]);
        assert!(
            handles().all(|handle| !handle.has_begun()),
            "it waits for a permit"
        );
        if let Some(mine) = &mine {
            let outcome = mine.cancel(Interrupt::Yes);
            assert_eq!(outcome, CancelOutcome::TooLate, "others share its run");
        }
        drop(occupied);
        assert!(poll_once(run.as_mut()).is_pending());
        assert!(handles().all(|handle| handle.has_begun()));
        let outcome = follows.cancel(Interrupt::Yes);
        assert_eq!(
            outcome,
            CancelOutcome::TooLate,
            "a future is dropped instead"
        );
        go_on.open();
        assert_eq!(poll_once(run.as_mut()), Poll::Ready(Ok(7)));
        assert_eq!(poll_once(follower.as_mut()), Poll::Ready(Ok(7)));
        assert_eq!(answer.wait().unwrap(), 7);
        assert!(
            handles().all(|handle| handle.has_begun()),
            "also after its end"
        );
    }
}

#[test]
fn a_future_that_is_refused_has_begun_for_none_of_its_callers() {
    let (_clock, _isolation, command) = patient();
    let request = RequestContext::new();
    let mut occupied = Box::pin(command.run_async(|_| std::future::pending()));
    assert!(poll_once(occupied.as_mut()).is_pending());
    let call = command.call().cache_key("k").context(&request);
    let mut run = Box::pin(call.run_async(|_| std::future::pending()));
    assert!(poll_once(run.as_mut()).is_pending());
    let (call, handle) = with_handle(command.call().cache_key("k").context(&request));
    let answer = call.queue(|_| panic!("it shares the run"));
    drop(run);
    let error = answer.wait().unwrap_err().failure().unwrap();
    assert_eq!(error.cause(), &Cause::Cancelled);
    assert!(!handle.has_begun());
}
