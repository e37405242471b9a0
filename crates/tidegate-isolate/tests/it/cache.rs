//! The request cache shares a run, even while it is in flight.

use std::future::ready;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use tidegate_core::Blocking;
use tidegate_isolate::{Cause, Command, Event, RequestContext};
use tidegate_testkit::{Gate, until};

use crate::support::{
    Answer, Numbers, SECOND, alone, builder, cause, failed, hold, poll_once, pool, pool_of, still,
};

#[test]
fn equal_keys_share_one_run_in_a_request() {
    let (_clock, _isolation, command) = alone(|c| c);
    let runs = AtomicU32::new(0);
    let call = |key: &str| {
        let work = |_: &_| Ok(runs.fetch_add(1, Ordering::Relaxed));
        command.call().cache_key(key).run_in_place(work)
    };
    let request = RequestContext::new();
    let entered = request.enter();
    assert_eq!((call("x"), call("x"), call("y")), (Ok(0), Ok(0), Ok(1)));
    assert_eq!(command.snapshot().totals[Event::ResponseFromCache], 1);
    assert_eq!(
        command.snapshot().totals[Event::Success],
        2,
        "a hit adds nothing else"
    );
    assert!(request.clear_cached(command.key(), "x"));
    assert_eq!(call("x"), Ok(2));
    drop(entered);
    let other = RequestContext::new();
    let _entered = other.enter();
    assert_eq!(call("x"), Ok(3), "another request");
    let text = request.log_text();
    assert!(text.contains("a[RESPONSE_FROM_CACHE][0ms]"), "{text}");
}

#[test]
fn errors_are_shared_too() {
    let (_clock, _isolation, command) = alone(|c| c);
    let request = RequestContext::new();
    let runs = AtomicU32::new(0);
    for _ in 0..2 {
        let call = command.call().context(&request).cache_key("x");
        let error = call.run_in_place(|_| {
            runs.fetch_add(1, Ordering::Relaxed);
            Err("down")
        });
        assert_eq!(error.unwrap_err().cause(), &Cause::Failed("down"));
    }
    assert_eq!(runs.into_inner(), 1);
}

#[test]
fn a_call_joins_the_run_that_is_under_way() {
    let (_clock, _isolation, command) = alone(|c| c.permits(1));
    let request = RequestContext::new();
    let (inside, go_on) = (Gate::new(), Gate::new());
    std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            let call = command.call().context(&request).cache_key("x");
            call.run_in_place(|_| {
                inside.open();
                go_on.wait();
                Ok(1)
            })
        });
        inside.wait();
        let second = scope.spawn(|| {
            let call = command.call().context(&request).cache_key("x");
            // Observed just before it waits; the permit is taken, so a run of its own would fail.
            let go_on = go_on.clone();
            call.observe(move |_| go_on.open())
                .run_in_place(|_| panic!("must not run"))
        });
        assert_eq!(second.join().unwrap(), Ok(1));
        assert_eq!(first.join().unwrap(), Ok(1));
    });
}

#[test]
fn a_cache_key_without_a_request_is_an_error() {
    let (_clock, _isolation, command) = alone(|c| c);
    let error = command.call().cache_key("x").run(|_| Ok(1)).unwrap_err();
    assert_eq!(error.cause(), &Cause::NoRequest);
    assert!(error.to_string().contains("RequestContext"), "{error}");
    assert_eq!(command.run(|_| Ok(1)), Ok(1), "without a key it runs");
}

#[test]
fn a_switched_off_cache_runs_every_call() {
    let (_clock, _isolation, command) = alone(|c| c.configure(|c| c.cache_enabled = false));
    let request = RequestContext::new();
    let runs = AtomicU32::new(0);
    for _ in 0..2 {
        let call = command.call().context(&request).cache_key("x");
        call.run_in_place(|_| Ok(runs.fetch_add(1, Ordering::Relaxed)))
            .unwrap();
    }
    assert_eq!(runs.into_inner(), 2);
}

#[test]
fn calls_are_logged_in_their_request() {
    let (_clock, _isolation, command) = alone(|c| c.fallback(|_| Ok(0)));
    let request = RequestContext::new();
    {
        let _entered = request.enter();
        command.run(|_| Ok(1)).unwrap();
        command.run(|_| Err("no")).unwrap();
        command.run(|_| Ok(1)).unwrap();
    }
    command.run(|_| Ok(1)).unwrap();
    assert_eq!(
        request.log_text(),
        "a[SUCCESS][0ms]x2, a[FAILURE, FALLBACK_SUCCESS][0ms]"
    );
    command.configure(|c| c.log_enabled = false).unwrap();
    let _entered = request.enter();
    command.run(|_| Ok(1)).unwrap();
    assert_eq!(request.log().len(), 3);
}

#[test]
fn a_queued_call_joins_a_run_without_waiting_for_it() {
    let (_clock, _isolation, command) = alone(|c| c.threads(pool_of(1, 0)));
    let request = RequestContext::new();
    let (inside, go_on) = (Gate::new(), Gate::new());
    let (open, until) = (inside.clone(), go_on.clone());
    // On a loop: a blocking wait here would be refused.
    let (first, second) = Blocking::forbid(|| {
        let call = || command.call().context(&request).cache_key("x");
        let first = call().queue(move |_| {
            open.open();
            until.wait();
            Ok(7)
        });
        inside.wait();
        (first, call().queue(|_| panic!("must not run")))
    });
    let third = command.call().context(&request).cache_key("x");
    let third = third.queue(|_| panic!("must not run"));
    assert!(third.cancel(), "its own copy, not the run");
    go_on.open();
    assert_eq!((first.wait().unwrap(), second.wait().unwrap()), (7, 7));
    assert_eq!(command.snapshot().totals[Event::ResponseFromCache], 2);
    assert_eq!(command.snapshot().totals[Event::Success], 1);
}

#[test]
fn a_queued_run_ends_with_the_last_of_its_callers() {
    let (_clock, isolation, command) = alone(|c| c.threads(pool_of(1, 4)).no_timeout());
    let request = RequestContext::new();
    let call = || command.call().context(&request).cache_key("x");
    let go_on = Gate::new();
    let held = hold(&command, &go_on);
    // No other call shares the run.
    let alone = call().queue(|_| panic!("must not run"));
    assert_eq!(pool(&isolation).queued, 1);
    assert!(alone.cancel());
    assert_eq!(pool(&isolation).queued, 0, "it left the queue");
    assert_eq!(command.snapshot().totals[Event::Cancelled], 1);
    // Two queued calls and a future share the run.
    let first = call().queue(|_| panic!("must not run"));
    let second = call().queue(|_| panic!("must not run"));
    let mut third = Box::pin(call().run_async(|_| async { panic!("must not run") }));
    assert!(poll_once(third.as_mut()).is_pending());
    assert!(first.cancel() && second.cancel());
    assert_eq!(
        pool(&isolation).queued,
        1,
        "one caller still waits for the result"
    );
    drop(third);
    assert_eq!(pool(&isolation).queued, 0);
    assert_eq!(command.snapshot().totals[Event::Cancelled], 2);
    // The next call runs again. If one of two callers cancels, the run continues for the other.
    let (leaves, stays) = (call().queue(|_| Ok(8)), call().queue(|_| panic!("shared")));
    assert!(leaves.cancel());
    go_on.open();
    held.wait().unwrap();
    assert_eq!(stays.wait().unwrap(), 8);
    // Cancelling after the end has no effect.
    let late = call().queue(|_| panic!("it has a result"));
    assert!(!late.cancel());
    assert_eq!(call().run(|_| panic!("it has a result")), Ok(8));
}

#[test]
fn futures_share_a_run() {
    let (_clock, _isolation, command) = alone(|c| c.permits(1));
    let request = RequestContext::new();
    let runs = Arc::new(AtomicU32::new(0));
    let call = |ready: bool| {
        let runs = Arc::clone(&runs);
        let call = command.call().context(&request).cache_key("x");
        call.run_async(move |_| async move {
            if !ready {
                std::future::pending::<()>().await;
            }
            Ok(runs.fetch_add(1, Ordering::Relaxed))
        })
    };
    let mut second = pin!(call(true));
    {
        let mut first = pin!(call(false));
        assert!(poll_once(first.as_mut()).is_pending());
        assert!(
            poll_once(second.as_mut()).is_pending(),
            "the permit is taken: a run of its own would be refused"
        );
    }
    let error = failed(poll_once(second.as_mut()), "the run is gone");
    assert!(error.is_cancelled(), "{error}");
    let again = pin!(call(true));
    assert_eq!(poll_once(again), Poll::Ready(Ok(0)), "a run of its own");
    assert_eq!(poll_once(pin!(call(false))), Poll::Ready(Ok(0)), "shared");
    let blocking = command.call().context(&request).cache_key("x");
    assert_eq!(blocking.run(|_| panic!("must not run")), Ok(0));
}

#[test]
fn a_switched_off_log_notes_no_hits() {
    let (_clock, _isolation, command) = alone(|c| c.configure(|c| c.log_enabled = false));
    let request = RequestContext::new();
    for _ in 0..2 {
        let call = command.call().context(&request).cache_key("x");
        assert_eq!(call.run(|_| Ok(1)), Ok(1));
    }
    assert_eq!(command.snapshot().totals[Event::ResponseFromCache], 1);
    assert_eq!(request.log(), []);
}

#[test]
fn isolations_with_a_key_in_common_share_no_results() {
    let ((_, one), (_, other)) = (still(), still());
    let (first, second) = (
        builder("a").build(&one).unwrap(),
        builder("a").build(&other).unwrap(),
    );
    let text = Command::<String, ()>::builder("a").group("tests");
    let (_clock, third) = still();
    let text = text.build(&third).unwrap();
    let request = RequestContext::new();
    let _entered = request.enter();
    let call = |command: &Numbers, answer: u32| {
        let call = command.call().cache_key("x");
        call.run(move |_| Ok(answer)).unwrap()
    };
    assert_eq!(call(&first, 1), 1);
    assert_eq!(call(&second, 2), 2, "another isolation, another result");
    let words = text.call().cache_key("x").run(|_| Ok("three".to_owned()));
    assert_eq!(words.unwrap(), "three");
    assert_eq!(
        (call(&first, 4), call(&second, 5)),
        (1, 2),
        "nothing is overwritten"
    );
    assert!(first.clear_cached(&request, "x") && !first.clear_cached(&request, "x"));
    assert_eq!((call(&first, 6), call(&second, 7)), (6, 2));
    assert!(request.clear_cached(&"a".into(), "x"), "of all isolations");
    assert_eq!((call(&first, 8), call(&second, 9)), (8, 9));
}

#[test]
fn a_key_that_was_removed_and_built_again_caches_anew() {
    let (_clock, isolation) = still();
    let _entered = RequestContext::new().enter();
    let old = builder("a").build(&isolation).unwrap();
    assert_eq!(old.call().cache_key("x").run(|_| Ok(1)), Ok(1));
    assert!(isolation.remove("a"));
    let new = builder("a").build(&isolation).unwrap();
    assert_eq!(new.call().cache_key("x").run(|_| Ok(2)), Ok(2));
    assert_eq!(old.call().cache_key("x").run(|_| Ok(3)), Ok(1));
}

#[test]
fn a_run_that_is_given_up_forgets_only_its_own_entry() {
    let (_clock, _isolation, command) = alone(|c| c);
    let request = RequestContext::new();
    let call = || command.call().context(&request).cache_key("x");
    {
        let mut first = pin!(call().run_async(|_| std::future::pending()));
        assert!(poll_once(first.as_mut()).is_pending());
        assert!(command.clear_cached(&request, "x"));
        assert_eq!(call().run(|_| Ok(2)), Ok(2), "it was cleared");
    }
    assert_eq!(call().run(|_| panic!("must not run")), Ok(2));
}

/// Returns a call in flight without a timeout of its own, and the gate that ends it.
fn under_way(command: &Numbers, request: &RequestContext) -> (Answer, Gate) {
    let (inside, go_on) = (Gate::new(), Gate::new());
    let (open, until) = (inside.clone(), go_on.clone());
    let call = command.call().context(request).cache_key("x");
    let first = call.timeout(Duration::MAX).queue(move |_| {
        open.open();
        until.wait();
        Ok(7)
    });
    inside.wait();
    (first, go_on)
}

#[test]
fn a_call_that_shares_a_run_has_a_timeout_of_its_own() {
    let (clock, _isolation, command) = alone(|c| c.threads(pool_of(1, 0)).timeout(SECOND));
    let request = RequestContext::new();
    let (first, go_on) = under_way(&command, &request);
    let call = || command.call().context(&request).cache_key("x");
    let queued = call().queue(|_| panic!("must not run"));
    let patient = call()
        .timeout(SECOND * 1_000_000)
        .queue(|_| panic!("must not run"));
    let replaced = call().fallback(|why| {
        assert!(why.is_timed_out());
        Ok(9)
    });
    let replaced = replaced.queue(|_| panic!("must not run"));
    std::thread::scope(|scope| {
        // Observed just before it waits.
        let (near, waiting) = (Gate::new(), call());
        let tell = near.clone();
        let waiting = waiting.observe(move |_| tell.open());
        let waited = scope.spawn(move || waiting.run(|_| panic!("must not run")));
        near.wait();
        // Its timeout starts when it waits, so the clock advances until the wait has ended.
        until("the wait has ended", || {
            clock.jump(SECOND / 4);
            waited.is_finished()
        });
        let error = waited.join().unwrap().unwrap_err();
        assert!(error.is_timed_out(), "{error}");
        assert_eq!(error.cause(), &Cause::TimedOut(SECOND));
    });
    assert_eq!(cause(queued), Cause::TimedOut(SECOND));
    assert_eq!(replaced.wait().unwrap(), 9);
    assert!(!patient.is_done(), "it has time");
    go_on.open();
    assert_eq!((first.wait().unwrap(), patient.wait().unwrap()), (7, 7));
    let totals = command.snapshot().totals;
    assert_eq!((totals[Event::Timeout], totals[Event::Success]), (3, 1));
    assert_eq!(
        call().run(|_| panic!("must not run")),
        Ok(7),
        "what is there is had at once"
    );
}

#[test]
fn a_future_that_shares_a_run_has_a_timeout_of_its_own() {
    let (clock, _isolation, command) = alone(|c| c.permits(1).timeout(SECOND));
    let request = RequestContext::new();
    let call = || command.call().context(&request).cache_key("x");
    let mut first = pin!(
        call()
            .timeout(Duration::MAX)
            .run_async(|_| std::future::pending())
    );
    assert!(poll_once(first.as_mut()).is_pending());
    let shares = || call().run_async(|_| async { panic!("must not run") });
    let mut second = pin!(shares());
    let mut third = pin!(call().timeout(2 * SECOND).run_async(|_| async { Ok(1) }));
    assert!(poll_once(second.as_mut()).is_pending());
    assert!(poll_once(third.as_mut()).is_pending());
    clock.advance(SECOND);
    let error = failed(poll_once(second.as_mut()), "its time is over");
    assert_eq!(error.cause(), &Cause::TimedOut(SECOND));
    assert!(poll_once(third.as_mut()).is_pending(), "it has time");
    clock.advance(SECOND);
    assert!(poll_once(third.as_mut()).is_ready());
    assert!(poll_once(first.as_mut()).is_pending(), "the run goes on");
}

/// A value whose copy panics.
#[derive(Debug)]
struct Unique;

impl Clone for Unique {
    fn clone(&self) -> Self {
        panic!("on purpose");
    }
}

#[test]
fn a_result_whose_copy_panics_still_reaches_its_own_caller() {
    let (_clock, isolation) = still();
    let command = Command::<Unique, ()>::builder("a").group("tests");
    let command = command.build(&isolation).unwrap();
    let request = RequestContext::new();
    let runs = AtomicU32::new(0);
    for _ in 0..2 {
        let call = || command.call().context(&request);
        let work = |_: &_| {
            runs.fetch_add(1, Ordering::Relaxed);
            Ok(Unique)
        };
        assert!(call().cache_key("x").run_in_place(work).is_ok());
        let mut answer = pin!(call().cache_key("y").run_async(|_| ready(Ok(Unique))));
        assert!(matches!(poll_once(answer.as_mut()), Poll::Ready(Ok(_))));
    }
    assert_eq!(
        runs.load(Ordering::Relaxed),
        2,
        "there was nothing to share"
    );
}
