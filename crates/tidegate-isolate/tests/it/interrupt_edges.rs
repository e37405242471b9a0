//! Cancels at the edges: calls that share a run, a cancel from inside the call itself, work whose
//! `Drop` panics, and the end of the isolation.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::thread;

use tidegate_core::{CancelToken, Parker};
use tidegate_isolate::{
    Call, CallHandle, CallStage, CancelOutcome, Cause, Event, Interrupt, RequestContext, Retry,
};
use tidegate_testkit::{Bomb, Counter, Gate, Log, until};

use crate::interrupt::Held;
use crate::support::{
    Answer, Numbers, SECOND, alone, builder, cause, counted, failed, hold, hold_call,
    interruptible, isolated, made, poll_by, poll_once, pool, pool_of, waiting, with_handle,
};

/// Makes a call of key `k` that shares its run.
fn share(
    command: &Numbers,
    request: &RequestContext,
    work: impl FnOnce(&CancelToken) -> Result<u32, &'static str> + Send + 'static,
) -> (Answer, CallHandle) {
    let (call, handle) = with_handle(command.call().cache_key("k").context(request));
    (call.queue(work), handle)
}

#[test]
fn callers_of_a_queued_run_have_not_begun() {
    let (_clock, isolation, command) = interruptible(1);
    let request = RequestContext::new();
    let go_on = Gate::new();
    let held = hold(&command, &go_on);
    let (first, mine) = share(&command, &request, |_| panic!("must not run"));
    let (second, other) = share(&command, &request, |_| panic!("it shares the run"));
    thread::scope(|scope| {
        let (call, blocking) = with_handle(command.call().cache_key("k").context(&request));
        let caller = scope.spawn(move || call.run(|_| panic!("it shares the run")));
        for handle in [&mine, &other, &blocking] {
            assert!(!handle.has_begun());
        }
        assert_eq!(other.cancel(Interrupt::Yes), CancelOutcome::NotBegun);
        assert!(second.is_cancelled() && !first.is_done());
        // Whether the caller waits already or not: its work has not begun.
        assert_eq!(blocking.cancel(Interrupt::Yes), CancelOutcome::NotBegun);
        assert!(!blocking.has_begun());
        let error = caller.join().unwrap().unwrap_err();
        assert_eq!(error.cause(), &Cause::Cancelled);
    });
    assert_eq!(mine.cancel(Interrupt::Yes), CancelOutcome::NotBegun);
    assert_eq!(pool(&isolation).queued, 0, "the run was cancelled");
    assert!(!mine.has_begun() && !other.has_begun());
    go_on.open();
    held.wait().unwrap();
}

#[test]
fn a_blocking_caller_of_a_shared_run_has_a_say_in_the_interrupt() {
    for (asked, interrupted) in [(Interrupt::No, false), (Interrupt::Yes, true)] {
        let (_clock, isolation, command) = interruptible(1);
        let request = RequestContext::new();
        let held = Held::default();
        let (first, mine) = share(&command, &request, held.work());
        held.inside.wait();
        thread::scope(|scope| {
            let (call, blocking) = with_handle(command.call().cache_key("k").context(&request));
            let caller = scope.spawn(move || call.run(|_| panic!("it shares the run")));
            until("the caller waits", || blocking.has_begun());
            assert_eq!(mine.cancel(Interrupt::No), CancelOutcome::Running);
            assert!(first.is_cancelled());
            assert_eq!(blocking.cancel(asked), CancelOutcome::Running);
            let error = caller.join().unwrap().unwrap_err();
            assert_eq!(error.cause(), &Cause::Cancelled);
        });
        assert_eq!(held.is_interrupted(), interrupted, "{asked:?}");
        held.go_on.open();
        until("no call overstays", || pool(&isolation).overstaying == 0);
    }
}

#[test]
fn a_run_that_never_began_has_not_begun_for_any_of_its_callers() {
    let (clock, _isolation, command) = alone(|c| c.threads(pool_of(1, 8)).timeout(SECOND));
    let go_on = Gate::new();
    let (call, here) = with_handle(command.call().timeout(SECOND * 1000));
    let held = hold_call(call, &go_on);
    assert!(here.has_begun());
    let request = RequestContext::new();
    let calls = [(); 2].map(|()| share(&command, &request, |_| panic!("must not run")));
    clock.jump(SECOND);
    for (answer, handle) in calls {
        until("it has timed out", || answer.is_done());
        assert!(!handle.has_begun(), "it expired in the queue");
        assert_eq!(handle.cancel(Interrupt::Yes), CancelOutcome::TooLate);
    }
    go_on.open();
    held.wait().unwrap();
}

#[test]
fn a_call_that_is_answered_from_the_cache_had_begun_with_its_run() {
    let (_clock, _isolation, command) = interruptible(1);
    let request = RequestContext::new();
    let (first, mine) = share(&command, &request, |_| Ok(7));
    assert_eq!(first.wait().unwrap(), 7);
    let (second, other) = share(&command, &request, |_| panic!("it is cached"));
    assert_eq!(second.wait().unwrap(), 7);
    let (call, blocking) = with_handle(command.call().cache_key("k").context(&request));
    assert_eq!(call.run(|_| panic!("it is cached")), Ok(7));
    for handle in [mine, other, blocking] {
        assert!(handle.has_begun());
        assert_eq!(handle.cancel(Interrupt::Yes), CancelOutcome::TooLate);
    }
}

/// Cancels its own call from its work, from a hook of its token, from its fallback and from a listener.
#[test]
fn a_call_may_cancel_itself_at_every_stage() {
    for asked in [Interrupt::Yes, Interrupt::No] {
        let (_clock, isolation, command) = interruptible(1);
        let log = Log::new();
        let (call, handle) = with_handle(command.call());
        let (own, notes) = (handle.clone(), log.clone());
        let answer = call.queue(move |token| {
            let (again, hooked) = (own.clone(), notes.clone());
            let _hook = token.on_cancel(move || {
                hooked.push(("hook", again.cancel(Interrupt::Yes)));
            });
            assert!(own.has_begun());
            notes.push(("work", own.cancel(asked)));
            assert_eq!(token.is_cancelled(), asked == Interrupt::Yes);
            Ok(7)
        });
        let (own, notes) = (handle.clone(), log.clone());
        answer.on_complete(move |outcome| {
            assert!(outcome.is_cancelled());
            notes.push(("listener", own.cancel(Interrupt::No)));
        });
        let expected = match asked {
            Interrupt::Yes => 3,
            Interrupt::No => 2,
        };
        log.wait_for(expected);
        let seen = log.take();
        assert!(seen.contains(&("work", CancelOutcome::Running)), "{seen:?}");
        assert!(seen.contains(&("listener", CancelOutcome::TooLate)));
        assert_eq!(
            seen.contains(&("hook", CancelOutcome::TooLate)),
            asked == Interrupt::Yes
        );
        until("no call overstays", || pool(&isolation).overstaying == 0);
        assert_eq!(counted(&command), [(Event::Cancelled, 1)]);
    }
}

#[test]
fn a_cancel_in_the_fallback_ends_the_call_once() {
    let (_clock, _isolation, command) = interruptible(1);
    let (call, handle) = with_handle(command.call());
    let (own, log) = (handle.clone(), Log::new());
    let notes = log.clone();
    let answer = call
        .fallback(move |_| {
            notes.push(own.cancel(Interrupt::Yes));
            Ok(3)
        })
        .queue(|_| Err("no"));
    log.wait_for(1);
    until("the call has ended", || answer.is_done());
    assert!(handle.has_begun());
    assert_eq!(handle.cancel(Interrupt::Yes), CancelOutcome::TooLate);
    let ended = answer.wait();
    let found = log.take()[0];
    match found {
        CancelOutcome::TooLate => assert_eq!(ended.unwrap(), 3),
        other => assert!(ended.unwrap_err().is_cancelled(), "{other:?}"),
    }
}

#[test]
fn work_whose_drop_panics_is_dropped_by_the_cancel_without_harm() {
    let (_clock, isolation, command) = interruptible(1);
    let go_on = Gate::new();
    let held = hold(&command, &go_on);
    for before in [true, false] {
        let bomb = Bomb::new();
        let (call, handle) = with_handle(command.call());
        if before {
            assert_eq!(handle.cancel(Interrupt::Yes), CancelOutcome::NotBegun);
        }
        let answer = call.queue(move |_| {
            bomb.defuse();
            Ok(1)
        });
        let late = match before {
            true => CancelOutcome::TooLate,
            false => CancelOutcome::NotBegun,
        };
        assert_eq!(handle.cancel(Interrupt::Yes), late);
        assert!(answer.is_cancelled());
    }
    assert_eq!(pool(&isolation).queued, 0);
    go_on.open();
    held.wait().unwrap();
    assert_eq!(command.run(|_| Ok(5)), Ok(5));
}

#[test]
fn cancels_race_with_the_end_of_the_isolation() {
    for round in 0..20_u64 {
        let (clock, isolation, command) = interruptible(2);
        let (ran, ended, go_on) = (Counter::new(), Counter::new(), Gate::new());
        let mut handles = Vec::new();
        for n in 0..8 {
            let (runs, gate) = (ran.clone(), go_on.clone());
            let mut call = command.call();
            handles.push(call.handle());
            let answer = call.queue(move |_| {
                runs.hit();
                gate.wait();
                Ok(n)
            });
            let ends = ended.clone();
            answer.on_complete(move |_| {
                ends.hit();
            });
        }
        let over = thread::scope(|scope| {
            let cancels = scope.spawn(|| {
                let found = handles.iter().map(|handle| handle.cancel(Interrupt::Yes));
                found.collect::<Vec<_>>()
            });
            tidegate_testkit::yield_times(round);
            let over = isolation.shutdown(SECOND);
            let _ = isolation.dump().to_string();
            let found = cancels.join().unwrap();
            for (handle, found) in handles.iter().zip(found) {
                match found {
                    CancelOutcome::NotBegun => assert!(!handle.has_begun()),
                    CancelOutcome::Running => {
                        until("it says that it has begun", || handle.has_begun());
                    }
                    _ => {}
                }
            }
            over
        });
        go_on.open();
        until("the isolation has ended", || {
            clock.jump(SECOND);
            over.is_done()
        });
        until("each call has ended", || ended.count() == 8);
        until("each call that has begun has run", || {
            let begun = handles.iter().filter(|handle| handle.has_begun());
            begun.count() as u64 == ran.count()
        });
        until("no call is active", || command.snapshot().active == 0);
    }
}

#[test]
fn the_handle_of_a_retry_knows_each_attempt_and_a_cancel_between_them() {
    let (_clock, _isolation, command) = interruptible(1);
    let retry = Retry::attempts(3).when(|_| true);
    let (call, handle) = with_handle(command.call());
    let (own, tried) = (handle.clone(), Counter::new());
    let count = tried.clone();
    assert!(!handle.has_begun());
    let answer = retry.run(call, |attempt| {
        if count.hit() == 2 {
            assert!(own.has_begun(), "the first attempt ran");
            assert_eq!(own.cancel(Interrupt::Yes), CancelOutcome::NotBegun);
        }
        attempt.run(|_| Err("no"))
    });
    assert_eq!(answer.unwrap_err().cause(), &Cause::Cancelled);
    assert_eq!(tried.count(), 2);
    assert_eq!(handle.cancel(Interrupt::Yes), CancelOutcome::TooLate);
}

#[test]
fn a_call_that_is_cancelled_while_it_waits_for_a_permit_never_runs() {
    type Way = fn(Call<u32, &'static str>) -> Cause<&'static str>;
    let (_clock, _isolation, command) = alone(|c| c.permits(waiting(1, SECOND)).no_timeout());
    let held = command.admit().unwrap();
    let ways: [Way; 3] = [
        |call| {
            call.run(|_| panic!("must not run"))
                .unwrap_err()
                .into_cause()
        },
        |call| cause(call.queue(|_| panic!("must not run"))),
        |call| {
            let retry = Retry::attempts(3).when(|_| true);
            let answer = retry.run(call, |call| call.run(|_| panic!("must not run")));
            answer.unwrap_err().into_cause()
        },
    ];
    for way in ways {
        let (call, handle) = with_handle(command.call());
        thread::scope(|scope| {
            let caller = scope.spawn(move || way(call));
            until("the call waits", || command.snapshot().waiting == 1);
            assert_eq!(handle.cancel(Interrupt::Yes), CancelOutcome::NotBegun);
            assert_eq!(caller.join().unwrap(), Cause::Cancelled, "at once");
        });
        assert!(!handle.has_begun());
        assert_eq!(command.snapshot().waiting, 0);
    }
    let (call, handle) = with_handle(command.call());
    let (parker, work) = (Parker::new(), |_| async { panic!("must not run") });
    let mut future = pin!(call.run_async(work));
    assert!(poll_by(&parker, future.as_mut()).is_pending());
    assert_eq!(handle.cancel(Interrupt::Yes), CancelOutcome::NotBegun);
    assert!(parker.is_notified() && !handle.has_begun());
    assert!(failed(poll_by(&parker, future.as_mut()), "it waited").is_cancelled());
    drop(held);
    assert_eq!(counted(&command), [(Event::Cancelled, 5)]);
    let snapshot = command.snapshot();
    assert_eq!((snapshot.waiting, snapshot.active), (0, 0));
}

/// A hook of the start cancels each call, which then gets a permit at once.
#[test]
fn a_call_that_is_cancelled_just_before_its_permit_never_runs() {
    let cancels = Arc::new(Mutex::new(None::<CallHandle>));
    let taken = Arc::clone(&cancels);
    let isolation = isolated(|i| {
        i.hook(move |stage, _| {
            let handle = taken.lock().unwrap().take();
            if let Some(handle) = handle {
                assert_eq!(stage, CallStage::Start);
                assert_eq!(handle.cancel(Interrupt::Yes), CancelOutcome::NotBegun);
            }
            Ok(())
        })
    });
    let command = made(builder("a").permits(1), &isolation);
    let next = || {
        let (call, handle) = with_handle(command.call());
        *cancels.lock().unwrap() = Some(handle.clone());
        (call, handle)
    };
    let (call, handle) = next();
    let error = call.run(|_| panic!("must not run")).unwrap_err();
    assert!(error.is_cancelled() && !handle.has_begun());
    let (call, handle) = next();
    let polled = poll_once(pin!(call.run_async(|_| async { panic!("must not run") })));
    assert!(failed(polled, "it was cancelled").is_cancelled() && !handle.has_begun());
    // Before its first poll, a future is a call that is not made yet.
    let request = RequestContext::new();
    for call in [
        command.call(),
        command.call().cache_key("k").context(&request),
    ] {
        let (call, handle) = with_handle(call);
        let mut future = pin!(call.run_async(|_| async { panic!("must not run") }));
        assert_eq!(handle.cancel(Interrupt::No), CancelOutcome::NotBegun);
        assert!(failed(poll_once(future.as_mut()), "it was cancelled").is_cancelled());
    }
    assert_eq!(counted(&command), [(Event::Cancelled, 4)]);
    assert_eq!(command.snapshot().active, 0);
}
