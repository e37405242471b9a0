//! The context of a call: hooks know their thread, and a request follows its work.

use std::cell::Cell;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use tidegate_isolate::{CallStage, Event, Key, RequestContext, RequestVariable};
use tidegate_loop::EventLoop;
use tidegate_pool::Quiet;
use tidegate_testkit::Gate;

use crate::support::{SECOND, alone, builder, isolated, made, poll_once, pool_of, still_with};

#[test]
fn hooks_know_the_thread() {
    let stages = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&stages);
    let isolation = isolated(|i| {
        i.hook(move |stage: CallStage, _: &Key| {
            note.lock().unwrap().push(stage);
            Ok(())
        })
    });
    let command = made(
        builder("a").threads(pool_of(1, 1)).fallback(|_| Ok(0)),
        &isolation,
    );
    command.run(|_| Ok(1)).unwrap();
    let expected = [
        CallStage::Start,
        CallStage::ThreadStart,
        CallStage::ExecutionStart,
        CallStage::ExecutionEmit,
        CallStage::Emit,
        CallStage::ExecutionSuccess,
        CallStage::ThreadComplete,
        CallStage::Success,
    ];
    assert_eq!(std::mem::take(&mut *stages.lock().unwrap()), expected);
    command.run(|_| Err("no")).unwrap();
    let expected = [
        CallStage::ExecutionError,
        CallStage::ThreadComplete,
        CallStage::FallbackStart,
    ];
    assert_eq!(stages.lock().unwrap()[3..6], expected);
}

#[test]
fn the_context_goes_along_and_the_thread_gets_its_own_back() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let carried = Arc::clone(&log);
    let isolation = isolated(|i| {
        i.propagator(move || {
            let log = Arc::clone(&carried);
            move || {
                log.lock().unwrap().push("installed");
                move || log.lock().unwrap().push("restored")
            }
        })
    });
    let command = made(builder("a").threads(pool_of(1, 1)).no_timeout(), &isolation);
    let request = RequestContext::new();
    {
        let _entered = request.enter();
        let note = Arc::clone(&log);
        let error = command.run(move |_| {
            assert!(RequestContext::current().is_some());
            note.lock().unwrap().push("worked");
            panic!("on purpose")
        });
        assert!(error.is_err());
    }
    command
        .run(|_| {
            assert!(
                RequestContext::current().is_none(),
                "the first call's is gone"
            );
            Ok(1)
        })
        .unwrap();
    assert_eq!(
        log.lock().unwrap()[..3],
        ["installed", "worked", "restored"]
    );
    assert_eq!(request.log().len(), 1);
}

thread_local! {
    /// Context of a thread, such as the name of a user.
    static KNOWN: Cell<u32> = const { Cell::new(0) };
}

/// A propagator: carries `KNOWN` to another thread.
fn carry_known() -> impl FnOnce() -> Box<dyn FnOnce()> + Send {
    let known = KNOWN.get();
    move || {
        let before = KNOWN.replace(known);
        Box::new(move || KNOWN.set(before))
    }
}

#[test]
fn a_fallback_after_a_timeout_is_in_the_request_and_the_log_knows_the_call() {
    let (clock, isolation) = still_with(|i| i.propagator(carry_known));
    let user = Arc::new(RequestVariable::new(|| 0));
    let of_request = Arc::clone(&user);
    let command = made(
        builder("a")
            .threads(pool_of(1, 0))
            .timeout(SECOND)
            .fallback(move |_| Ok(*of_request.get().map_err(|_| "no request")? * 10 + KNOWN.get())),
        &isolation,
    );
    let request = RequestContext::new();
    let (inside, go_on) = (Gate::new(), Gate::new());
    let answer = {
        let _entered = request.enter();
        user.set(4).unwrap();
        KNOWN.set(2);
        let (open, until) = (inside.clone(), go_on.clone());
        let answer = command.queue(move |_| {
            open.open();
            until.wait();
            Ok(0)
        });
        KNOWN.set(0);
        answer
    };
    inside.wait();
    clock.jump(SECOND);
    assert_eq!(
        answer.wait().unwrap(),
        42,
        "on a thread of the command, in the request"
    );
    go_on.open();
    let log = request.log();
    assert!(log.len() == 1 && log[0].events.contains(Event::Timeout));
}

#[test]
fn a_future_is_in_the_request_that_it_was_made_in() {
    let (_clock, _isolation, command) = alone(|c| c);
    let user = RequestVariable::new(|| 0);
    let request = RequestContext::new();
    let call = {
        let _entered = request.enter();
        user.set(7).unwrap();
        command.run_async(|_| async { Ok(*user.get().map_err(|_| "no request")?) })
    };
    assert_eq!(poll_once(pin!(call)), Poll::Ready(Ok(7)));
    assert_eq!(request.log().len(), 1);
    assert!(RequestContext::current().is_none());
}

#[test]
fn a_request_goes_from_loop_to_loop_and_to_a_pool_and_back() {
    let (_clock, _isolation, command) = alone(|c| c.threads(pool_of(1, 1)));
    let [one, two] = ["one", "two"].map(|name| EventLoop::builder(name).build().unwrap());
    let trace = Arc::new(RequestVariable::new(|| Mutex::new(Vec::new())));
    let note = |what: &'static str| {
        let trace = Arc::clone(&trace);
        move || {
            let trace = trace.get().map_err(|_| "no request")?;
            trace.lock().unwrap().push(what);
            Ok::<u32, &'static str>(1)
        }
    };
    let request = RequestContext::new();
    let (first, second) = (note("first loop"), note("second loop"));
    let (on_pool, after) = (note("pool"), note("after the pool"));
    let hop = two.clone();
    let carried = request.clone();
    let journey = request.follow(async move {
        first()?;
        let there = carried.bind(second);
        hop.submit(there)
            .map_err(|_| "refused")?
            .await
            .map_err(|_| "lost")??;
        let answer = command.queue(move |_| on_pool()).await;
        answer.map_err(|_| "refused by the bulkhead")?;
        after()
    });
    let journey = one.spawn(journey).unwrap();
    assert_eq!(journey.wait().unwrap(), Ok(1));
    let _entered = request.enter();
    let trace = trace.get().unwrap();
    let expected = ["first loop", "second loop", "pool", "after the pool"];
    assert_eq!(*trace.lock().unwrap(), expected);
    for each in [one, two] {
        each.shutdown(Quiet::none(SECOND)).wait().unwrap();
    }
}
