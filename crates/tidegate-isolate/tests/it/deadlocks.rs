//! Waits that would deadlock are refused.

use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::time::Duration;

use tidegate_isolate::{Cause, Event, Isolation, Rejection, RequestContext};
use tidegate_testkit::{Counter, Gate, until};

use crate::support::{
    Numbers, alone, builder, counted, isolated, made, poll_once, pool_of, still, waiting,
};

const DEADLOCK: Cause<&'static str> = Cause::Rejected(Rejection::Deadlock);

#[test]
fn a_command_inside_its_own_run_does_not_wait_for_itself() {
    let (_clock, isolation) = still();
    let build = |key: &str| {
        let command = builder(key).threads(pool_of(1, 4)).no_timeout();
        command.build(&isolation).unwrap()
    };
    let (a, b) = (build("a"), build("b"));
    // Directly, with both ways to wait.
    let inner = a.clone();
    let answer = a.run(move |_| {
        let error = inner.run(|_| Ok(1)).unwrap_err();
        assert_eq!(error.cause(), &DEADLOCK);
        let error = inner.queue(|_| Ok(1)).wait().unwrap_err();
        assert!(error.is_refused(), "{error}");
        assert_eq!(inner.snapshot().config.pool.core, 1);
        Ok(2)
    });
    assert_eq!(answer, Ok(2));
    // Through another command, whose only thread is waiting.
    let (middle, last) = (b.clone(), a.clone());
    let answer = a.run(move |_| {
        let answer = middle.run(move |_| match last.run(|_| Ok(1)) {
            Err(error) if error.cause() == &DEADLOCK => Ok(3),
            other => panic!("{other:?}"),
        });
        answer.map_err(|_| "it was refused one too early")
    });
    assert_eq!(answer, Ok(3));
    // A free thread is left, so nothing is refused.
    a.configure(|c| c.pool.core = 2).unwrap();
    let inner = a.clone();
    let answer = a.run(move |_| inner.run(|_| Ok(4)).map_err(|_| "refused"));
    assert_eq!(answer, Ok(4));
}

/// Makes a call with the cache key `key` that makes another call with the same key inside.
fn call_inside(outer: &Numbers, inner: &Numbers, request: &RequestContext, key: &str) {
    let (inner, request, key) = (inner.clone(), request.clone(), key.to_owned());
    let call = outer.call().context(&request).cache_key(&key);
    let answer = call.run(move |_| {
        let again = inner.call().context(&request).cache_key(&key);
        let error = again.run(|_| panic!("must not run")).unwrap_err();
        assert_eq!(error.cause(), &DEADLOCK);
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
    let threads = made(
        builder("threads").threads(pool_of(4, 0)).no_timeout(),
        &isolation,
    );
    call_inside(&threads, &threads, &request, "x");

    // On another thread, which the run waits for.
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
                    Err(error) if error.cause() == &DEADLOCK => Ok(6),
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
        assert_eq!(error.cause(), &DEADLOCK);
        Ok(7)
    });
    assert_eq!(poll_once(pin!(future)), Poll::Ready(Ok(7)));
}

#[test]
fn two_shared_runs_do_not_wait_for_each_other() {
    let (_clock, _isolation, command) = alone(|c| c.permits(4).no_timeout());
    let request = RequestContext::new();
    let call = |key: &str| command.call().context(&request).cache_key(key);
    let (in_x, in_y, circles) = (Gate::new(), Gate::new(), Counter::new());
    let run = |mine: &str, other: &str, inside: &Gate, until: &Gate| {
        call(mine).run_in_place(|_| {
            inside.open();
            until.wait();
            let inner = call(other).run_in_place(|_| panic!("must not run"));
            match inner.unwrap_err().cause() {
                cause if cause == &DEADLOCK => {
                    circles.hit();
                }
                cause => assert_eq!(cause, &Cause::Failed("refused"), "of the other run"),
            }
            Err("refused")
        })
    };
    // One of the two waits for the other; the second to wait is refused.
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
    let (_clock, _isolation, command) = alone(|c| c.threads(pool_of(1, 4)).no_timeout());
    let request = RequestContext::new();
    let (inside, go_on) = (Gate::new(), Gate::new());
    let (open, until) = (inside.clone(), go_on.clone());
    let (inner, carried) = (command.clone(), request.clone());
    let first = command.queue(move |_| {
        open.open();
        until.wait();
        // The shared run is in the queue, behind this very call.
        let shared = inner.call().context(&carried).cache_key("x");
        let error = shared.run(|_| panic!("must not run")).unwrap_err();
        assert_eq!(error.cause(), &DEADLOCK);
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

#[test]
fn a_queued_copy_cannot_be_waited_for_inside_its_own_run() {
    let (_clock, isolation) = still();
    let permits = builder("a").no_timeout().build(&isolation).unwrap();
    let threads = made(builder("b").threads(pool_of(4, 4)).no_timeout(), &isolation);
    for command in [permits, threads] {
        let (inner, request) = (command.clone(), RequestContext::new());
        let (mine, (kept, copies)) = (request.clone(), mpsc::channel());
        let call = command.call().context(&request).cache_key("k");
        let answer = call.run(move |_| {
            let again = inner.call().context(&mine).cache_key("k");
            let copy = again.queue(|_| panic!("must not run"));
            let error = copy.wait().unwrap_err();
            assert!(error.is_refused(), "{error}");
            assert!(error.to_string().contains("deadlock"), "{error}");
            // Listening is not a wait, and a wait after the run is allowed.
            let again = inner.call().context(&mine).cache_key("k");
            kept.send(again.queue(|_| panic!("must not run"))).unwrap();
            Ok(5)
        });
        assert_eq!(answer, Ok(5));
        assert_eq!(copies.recv().unwrap().wait(), Ok(5));
    }
}

/// A command with this many permits, whose callers wait for an hour.
fn patient(isolation: &Isolation, key: &str, limit: usize) -> Numbers {
    let command = builder(key)
        .permits(waiting(limit, Duration::from_secs(3600)))
        .no_timeout();
    command.build(isolation).unwrap()
}

fn is_deadlock(command: &Numbers) -> bool {
    matches!(command.run(|_| Ok(1)), Err(error) if error.cause() == &DEADLOCK)
}

#[test]
fn a_wait_for_the_permit_that_the_caller_holds_is_refused() {
    let (_clock, isolation) = still();
    let (a, b) = (patient(&isolation, "a", 1), patient(&isolation, "b", 1));
    // Directly, through another command, and inside a future.
    assert_eq!(a.run_in_place(|_| Ok(u32::from(is_deadlock(&a)))), Ok(1));
    let through = a.run_in_place(|_| {
        let inner = b.run_in_place(|_| Ok(u32::from(is_deadlock(&a))));
        inner.map_err(|_| "it was refused one too early")
    });
    assert_eq!(through, Ok(1));
    let inside = pin!(a.run_async(|_| async { Ok(u32::from(is_deadlock(&a))) }));
    assert_eq!(poll_once(inside), Poll::Ready(Ok(1)));
    assert_eq!((a.snapshot().waiting, a.snapshot().active), (0, 0));
    assert!(!is_deadlock(&a), "nothing is held any more");
}

#[test]
fn a_wait_for_a_permit_that_may_come_back_is_not_refused() {
    let (clock, isolation) = still();
    let a = patient(&isolation, "a", 2);
    // Of two calls that wait inside, the second is refused, and the first then gets its permit.
    let inside = Counter::new();
    std::thread::scope(|scope| {
        let nested = scope.spawn(|| {
            a.run_in_place(|_| {
                inside.hit();
                inside.wait_for(2);
                Ok(u32::from(is_deadlock(&a)))
            })
        });
        let answer = a.run_in_place(|_| {
            inside.hit();
            inside.wait_for(2);
            clock.await_sleepers(1);
            Ok(u32::from(is_deadlock(&a)))
        });
        assert_eq!(answer, Ok(1), "all others wait");
        assert_eq!(nested.join().unwrap(), Ok(0), "the other one went on");
    });
}

#[test]
fn a_call_on_threads_does_not_wait_for_the_end_of_the_isolation() {
    let isolation = Isolation::builder().build().unwrap();
    let build = |key: &str, threads| {
        let command = builder(key).threads(pool_of(threads, 4)).no_timeout();
        command.build(&isolation).unwrap()
    };
    let (a, b) = (build("a", 3), build("b", 3));
    b.run(|_| Ok(1)).unwrap();
    let mine = isolation.clone();
    let answer = a.run(move |_| {
        let end = mine.shutdown(Duration::MAX);
        assert!(!end.cancel(), "the pools end all the same");
        let error = end.wait().unwrap_err();
        assert!(error.is_refused(), "{error}");
        assert!(error.to_string().contains("deadlock"), "{error}");
        Ok(2)
    });
    assert_eq!(answer, Ok(2));
    let report = isolation.shutdown(Duration::MAX).wait().unwrap();
    assert!(report.is_clean() && report.pools.len() == 2);
}

/// The task that cancels calls at the end of the timeout, which never comes, belongs to the timer.
#[test]
fn the_timer_ends_with_the_isolation_although_its_shutdown_has_no_timeout() {
    let held_by_timer = Arc::new(());
    let (mine, watch) = (Arc::clone(&held_by_timer), Arc::downgrade(&held_by_timer));
    let isolation = isolated(|i| i.on_unhandled(move |_, _| drop(Arc::clone(&mine))));
    let command = builder("a").threads(pool_of(1, 1)).build(&isolation);
    assert_eq!(command.unwrap().run(|_| Ok(1)), Ok(1));
    let report = isolation.shutdown(Duration::MAX).wait().unwrap();
    assert!(report.is_clean());
    drop((isolation, held_by_timer));
    until("the timer's thread has ended", || watch.strong_count() == 0);
}

/// A call that runs when both are called ends, and both say so.
#[test]
fn a_shutdown_and_a_shutdown_now_at_the_same_time_both_end() {
    for _ in 0..50 {
        let isolation = Isolation::builder().build().unwrap();
        let command = made(builder("a").threads(pool_of(2, 8)).no_timeout(), &isolation);
        let inside = Gate::new();
        let opens = inside.clone();
        let running = command.queue(move |cancel| {
            opens.open();
            let cancelled = Gate::new();
            let trips = cancelled.clone();
            let _hook = cancel.on_cancel(move || trips.open());
            cancelled.wait();
            Ok(1)
        });
        let queued: Vec<_> = (0..4).map(|_| command.queue(|_| Ok(2))).collect();
        inside.wait();
        let (now, later) = (isolation.clone(), isolation.clone());
        let report = std::thread::scope(|scope| {
            scope.spawn(move || now.shutdown_now());
            let end = scope.spawn(move || later.shutdown(Duration::MAX));
            end.join().unwrap().wait().unwrap()
        });
        assert!(report.is_clean(), "{report:?}");
        running.wait().unwrap_err();
        for call in queued {
            let _ = call.wait(); // it ran, or it was stopped
        }
    }
}
