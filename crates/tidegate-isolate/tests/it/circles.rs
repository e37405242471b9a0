//! Waits that could never end are refused.

use std::pin::pin;
use std::task::Poll;

use tidegate_isolate::{Cause, Event, Refused, RequestContext};
use tidegate_testkit::{Counter, Gate};

use crate::support::{Numbers, builder, counted, poll_once, pool_of, still};

const CIRCLE: Cause<&'static str> = Cause::Rejected(Refused::Circle);

#[test]
fn a_command_inside_its_own_run_does_not_wait_for_itself() {
    let (_clock, isolation) = still();
    let build = |key: &str| {
        let command = builder(key).threads(pool_of(1, 4)).no_timeout();
        command.build(&isolation).unwrap()
    };
    let (a, b) = (build("a"), build("b"));
    // Directly, by either way to wait.
    let inner = a.clone();
    let answer = a.run(move |_| {
        let error = inner.run(|_| Ok(1)).unwrap_err();
        assert_eq!(error.cause(), &CIRCLE);
        let error = inner.queue(|_| Ok(1)).wait().unwrap_err();
        assert!(error.is_refused(), "{error}");
        assert_eq!(inner.snapshot().config.pool.core, 1);
        Ok(2)
    });
    assert_eq!(answer, Ok(2));
    // Through another command, whose only thread waits meanwhile.
    let (middle, last) = (b.clone(), a.clone());
    let answer = a.run(move |_| {
        let answer = middle.run(move |_| match last.run(|_| Ok(1)) {
            Err(error) if error.cause() == &CIRCLE => Ok(3),
            other => panic!("{other:?}"),
        });
        answer.map_err(|_| "it was refused one too early")
    });
    assert_eq!(answer, Ok(3));
    // A thread is left: nothing is refused.
    a.configure(|c| c.pool.core = 2).unwrap();
    let inner = a.clone();
    let answer = a.run(move |_| inner.run(|_| Ok(4)).map_err(|_| "refused"));
    assert_eq!(answer, Ok(4));
}

/// A call with the key `key` that makes another one like it.
fn call_inside(outer: &Numbers, inner: &Numbers, request: &RequestContext, key: &str) {
    let (inner, request, key) = (inner.clone(), request.clone(), key.to_owned());
    let call = outer.call().context(&request).cache_key(&key);
    let answer = call.run(move |_| {
        let again = inner.call().context(&request).cache_key(&key);
        let error = again.run(|_| panic!("must not run")).unwrap_err();
        assert_eq!(error.cause(), &CIRCLE);
        Ok(5)
    });
    assert_eq!(answer, Ok(5));
}

#[test]
fn a_shared_run_does_not_wait_for_itself() {
    let (_clock, isolation) = still();
    let request = RequestContext::new();
    let in_place = builder("in place").no_timeout().build(&isolation).unwrap();
    call_inside(&in_place, &in_place, &request, "x");
    assert_eq!(counted(&in_place)[0], (Event::Success, 1));
    assert_eq!(in_place.snapshot().totals[Event::ResponseFromCache], 0);
    let threads = builder("threads").threads(pool_of(4, 0)).no_timeout();
    let threads = threads.build(&isolation).unwrap();
    call_inside(&threads, &threads, &request, "x");

    // On another thread, for which the run waits.
    let (outer, middle, inner) = (threads.clone(), in_place.clone(), threads.clone());
    let request = RequestContext::new();
    let carried = request.clone();
    let call = outer.call().context(&request).cache_key("y");
    let answer = call.run(move |_| {
        middle
            .call()
            .context(&carried.clone())
            .run(move |_| {
                let again = inner.call().context(&carried).cache_key("y");
                match again.run(|_| panic!("must not run")) {
                    Err(error) if error.cause() == &CIRCLE => Ok(6),
                    other => panic!("{other:?}"),
                }
            })
            .map_err(|_| "refused too early")
    });
    assert_eq!(answer, Ok(6));

    // As a future.
    let (command, carried) = (in_place.clone(), RequestContext::new());
    let request = carried.clone();
    let call = in_place.call().context(&request).cache_key("z");
    let future = call.run_async(move |_| async move {
        let again = command.call().context(&carried).cache_key("z");
        let error = again.run_async(|_| async { Ok(1) }).await.unwrap_err();
        assert_eq!(error.cause(), &CIRCLE);
        Ok(7)
    });
    assert_eq!(poll_once(pin!(future)), Poll::Ready(Ok(7)));
}

#[test]
fn two_shared_runs_do_not_wait_for_each_other() {
    let (_clock, isolation) = still();
    let command = builder("a").permits(4).no_timeout();
    let command = command.build(&isolation).unwrap();
    let request = RequestContext::new();
    let call = |key: &str| command.call().context(&request).cache_key(key);
    let (in_x, in_y, circles) = (Gate::new(), Gate::new(), Counter::new());
    let run = |mine: &str, other: &str, inside: &Gate, until: &Gate| {
        call(mine).run_in_place(|_| {
            inside.open();
            until.wait();
            let inner = call(other).run_in_place(|_| panic!("must not run"));
            match inner.unwrap_err().cause() {
                cause if cause == &CIRCLE => {
                    circles.hit();
                }
                cause => assert_eq!(cause, &Cause::Failed("refused"), "of the other run"),
            }
            Err("refused")
        })
    };
    // One of the two waits for the other; the one that comes second is refused.
    let answers = std::thread::scope(|scope| {
        let first = scope.spawn(|| run("x", "y", &in_x, &in_y));
        let second = scope.spawn(|| run("y", "x", &in_y, &in_x));
        [first.join().unwrap(), second.join().unwrap()]
    });
    for answer in answers {
        assert_eq!(answer.unwrap_err().cause(), &Cause::Failed("refused"));
    }
    assert_eq!(circles.count(), 1);
}

#[test]
fn a_shared_run_that_waits_for_the_calling_thread_is_not_waited_for() {
    let (_clock, isolation) = still();
    let command = builder("a").threads(pool_of(1, 4)).no_timeout();
    let command = command.build(&isolation).unwrap();
    let request = RequestContext::new();
    let (inside, go_on) = (Gate::new(), Gate::new());
    let (open, until) = (inside.clone(), go_on.clone());
    let (inner, carried) = (command.clone(), request.clone());
    let first = command.queue(move |_| {
        open.open();
        until.wait();
        // It lies in the queue, behind this very call.
        let shared = inner.call().context(&carried).cache_key("x");
        let error = shared.run(|_| panic!("must not run")).unwrap_err();
        assert_eq!(error.cause(), &CIRCLE);
        let copy = inner.call().context(&carried).cache_key("x");
        let error = copy.queue(|_| panic!("must not run")).wait().unwrap_err();
        assert!(error.is_refused(), "{error}");
        Ok(1)
    });
    inside.wait();
    let queued = command.call().context(&request).cache_key("x");
    let queued = queued.queue(|_| Ok(2));
    go_on.open();
    assert_eq!((first.wait().unwrap(), queued.wait().unwrap()), (1, 2));
}
