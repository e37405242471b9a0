//! Listeners: where they run, in which order, how often, and how they are removed.

use std::sync::{Arc, Mutex};

use tidegate_promise::{Completion, Failure, Outcome, promise};
use tidegate_testkit::{Counter, DropCount, Log};

use crate::support::{Loop, counting_waker, thread};

#[test]
fn run_in_the_order_in_which_they_were_added_each_once() {
    let (promise, answer) = promise::<u32>();
    let log = Log::new();
    for n in 0..10 {
        let log = log.clone();
        answer.on_complete(move |_| log.push(n));
    }
    assert!(log.is_empty());
    promise.succeed(1).unwrap();
    assert_eq!(log.take(), (0..10).collect::<Vec<_>>());
}

#[test]
fn the_same_function_added_twice_is_called_twice() {
    let (promise, answer) = promise::<u32>();
    let notified = Counter::new();
    let listen = {
        let notified = notified.clone();
        move |_: Outcome<&u32, &Failure>| notified.note()
    };
    answer.on_complete(listen.clone());
    answer.on_complete(listen);
    promise.succeed(1).unwrap();
    assert_eq!(notified.count(), 2);
}

#[test]
fn see_every_kind_of_outcome() {
    let log = Log::new();
    let listen = |answer: &Completion<u32>| {
        let log = log.clone();
        answer.on_complete(move |outcome| {
            log.push(match outcome {
                Outcome::Success(value) => format!("success {value}"),
                Outcome::Failure(cause) => format!("failure {cause}"),
                Outcome::Cancelled => "cancelled".to_owned(),
            });
        });
    };
    let (promise, answer) = promise::<u32>();
    listen(&answer);
    promise.succeed(1).unwrap();
    let (promise, answer) = tidegate_promise::promise::<u32>();
    listen(&answer);
    promise.fail(Failure::new("no luck")).unwrap();
    let (_promise, answer) = tidegate_promise::promise::<u32>();
    listen(&answer);
    answer.cancel();
    assert_eq!(log.take(), ["success 1", "failure no luck", "cancelled"]);
}

#[test]
fn a_late_one_runs_at_once_where_there_is_no_home() {
    let (promise, answer) = promise::<u32>();
    let log = Log::new();
    let first = log.clone();
    answer.on_complete(move |_| first.push("early"));
    promise.succeed(1).unwrap();
    let second = log.clone();
    answer.on_complete(move |_| second.push("late"));
    assert_eq!(log.take(), ["early", "late"]);
}

#[test]
fn a_late_one_on_the_home_runs_before_the_call_returns() {
    let home = Loop::new("home");
    let (promise, answer) = home.promise::<u32>();
    promise.succeed(1).unwrap();
    let seen = home.run(move || {
        let log = Log::new();
        let received = log.clone();
        answer.on_complete(move |_| received.push("notified"));
        log.push("returned");
        log.take()
    });
    assert_eq!(seen, ["notified", "returned"]);
}

#[test]
fn a_late_one_never_overtakes_an_earlier_one() {
    let home = Loop::new("home");
    let (promise, answer) = home.promise::<u32>();
    let log = Log::new();
    let held = home.hold();
    let first = log.clone();
    answer.on_complete(move |_| first.push("early"));
    promise.succeed(1).unwrap();
    let second = log.clone();
    answer.on_complete(move |_| second.push("late"));
    assert!(log.is_empty(), "the home is busy");
    held.open();
    log.wait_for(2);
    assert_eq!(log.take(), ["early", "late"]);
}

#[test]
fn one_added_inside_another_of_the_same_promise_comes_after_the_batch() {
    let (promise, answer) = promise::<u32>();
    let answer = answer.share().unwrap();
    let log = Log::new();
    let (inner, received) = (answer.clone(), log.clone());
    answer.on_complete(move |_| {
        let late = received.clone();
        inner.on_complete(move |_| late.push("added inside"));
        received.push("first");
    });
    let received = log.clone();
    answer.on_complete(move |_| received.push("second"));
    promise.succeed(1).unwrap();
    assert_eq!(log.take(), ["first", "second", "added inside"]);
}

#[test]
fn a_unique_read_end_can_be_used_inside_its_own_listener() {
    let (promise, answer) = promise::<u32>();
    let slot = Arc::new(Mutex::new(Some(answer)));
    let log = Log::new();
    let (inside, received) = (Arc::clone(&slot), log.clone());
    let guard = slot.lock().unwrap();
    guard.as_ref().unwrap().on_complete(move |_| {
        let mut answer = inside.lock().unwrap().take().unwrap();
        assert!(answer.take().is_none(), "this listener still looks at it");
        let late = received.clone();
        answer.on_complete(move |outcome| late.push(outcome.success().copied()));
        assert!(!answer.cancel());
        drop(answer);
        received.push(None);
    });
    drop(guard);
    promise.succeed(7).unwrap();
    assert_eq!(log.take(), [None, Some(7)]);
}

#[test]
fn run_on_the_home_on_whichever_thread_it_is_completed() {
    let home = Loop::new("home");
    let log = Log::new();
    let listen = |answer: &Completion<u32>| {
        let (log, executor) = (log.clone(), home.executor());
        answer.on_complete(move |_| log.push(executor.is_current()));
    };
    let (promise, answer) = home.promise();
    listen(&answer);
    promise.succeed(1).unwrap();
    log.wait_for(1);
    let (promise, answer) = home.promise();
    listen(&answer);
    home.run(move || promise.succeed(1).unwrap());
    log.wait_for(2);
    let (promise, answer) = home.promise();
    promise.succeed(1).unwrap();
    listen(&answer);
    log.wait_for(3);
    let (_promise, answer) = home.promise();
    listen(&answer);
    answer.cancel();
    log.wait_for(4);
    assert_eq!(log.take(), [true; 4]);
}

#[test]
fn completing_on_the_home_notifies_before_it_returns() {
    let home = Loop::new("home");
    let (promise, answer) = home.promise::<u32>();
    let notified = Counter::new();
    let count = notified.clone();
    answer.finally(move |_| count.note());
    let before = home.touches();
    let seen = home.run(move || {
        promise.succeed(1).unwrap();
        notified.count()
    });
    assert_eq!(seen, 1);
    assert_eq!(home.touches(), before + 1, "only by the task of this test");
}

#[test]
fn completing_without_listeners_never_touches_the_executor() {
    let home = Loop::new("home");
    let (promise, answer) = home.promise::<u32>();
    promise.succeed(1).unwrap();
    assert_eq!(answer.wait().unwrap(), 1);
    let (promise, answer) = home.promise::<u32>();
    drop(answer);
    promise.succeed(1).unwrap();
    let (_promise, answer) = home.promise::<u32>();
    answer.cancel();
    drop(home.promise::<u32>());
    assert_eq!(home.touches(), 0);
}

#[test]
fn a_waker_needs_no_detour_over_the_home() {
    let home = Loop::new("home");
    let held = home.hold();
    let (promise, mut answer) = home.promise::<u32>();
    let (waker, woken) = counting_waker();
    let mut context = std::task::Context::from_waker(&waker);
    let mut pinned = std::pin::Pin::new(&mut answer);
    assert!(pinned.as_mut().poll(&mut context).is_pending());
    let before = home.touches();
    promise.succeed(1).unwrap();
    assert_eq!((woken.count(), home.touches()), (1, before));
    assert!(pinned.as_mut().poll(&mut context).is_ready());
    held.open();
}

#[test]
fn a_panicking_one_is_reported_and_the_others_still_run() {
    let home = Loop::new("home");
    let (promise, answer) = home.promise::<u32>();
    let log = Log::new();
    for n in 0..3 {
        let log = log.clone();
        answer.on_complete(move |_| {
            log.push(n);
            assert!(n != 1, "on purpose");
        });
    }
    promise.succeed(1).unwrap();
    log.wait_for(3);
    assert_eq!(log.take(), [0, 1, 2]);
    home.settle();
    assert_eq!(home.unhandled(), ["a listener panicked: on purpose"]);
    assert_eq!(answer.wait().unwrap(), 1, "the promise is not disturbed");
}

#[test]
fn a_panicking_one_without_a_home_does_not_reach_the_completer() {
    let (promise, answer) = promise::<u32>();
    let notified = Counter::new();
    answer.on_complete(|_| panic!("on purpose"));
    let count = notified.clone();
    answer.on_complete(move |_| count.note());
    promise.succeed(1).unwrap();
    assert_eq!(notified.count(), 1);
}

#[test]
fn a_panicking_waker_does_not_cost_the_others_their_turn() {
    struct Bad;
    impl std::task::Wake for Bad {
        fn wake(self: Arc<Self>) {
            panic!("on purpose");
        }
    }
    let (promise, answer) = promise::<u32>();
    let mut first = answer.share().unwrap();
    let (mut second, notified) = (first.clone(), Counter::new());
    let bad = std::task::Waker::from(Arc::new(Bad));
    let (good, woken) = counting_waker();
    let poll = |answer: &mut tidegate_promise::SharedCompletion<u32>, waker| {
        let mut context = std::task::Context::from_waker(waker);
        std::pin::Pin::new(answer).poll(&mut context).is_ready()
    };
    assert!(!poll(&mut first, &bad));
    let count = notified.clone();
    first.on_complete(move |_| count.note());
    assert!(!poll(&mut second, &good));
    promise.succeed(1).unwrap();
    assert_eq!((notified.count(), woken.count()), (1, 1));
}

#[test]
fn a_panicking_drop_of_the_value_is_contained() {
    #[derive(Debug)]
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let home = Loop::new("home");
    let (promise, answer) = home.promise::<Bad>();
    drop(answer);
    promise.succeed(Bad).unwrap();
    let (promise, answer) = home.promise::<Bad>();
    let notified = Counter::new();
    let count = notified.clone();
    answer.finally(move |_| count.note());
    promise.succeed(Bad).unwrap();
    notified.wait_for(1);
    home.settle();
    let reports = home.unhandled();
    assert_eq!(reports, ["a listener panicked: on purpose"; 2]);
}

#[test]
fn a_panicking_drop_of_what_a_hook_captured_costs_no_listener_its_turn() {
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let home = Loop::new("home");
    let notified = Counter::new();
    for share in [false, true] {
        let (promise, answer) = home.promise::<u32>();
        let bad = Bad;
        promise.on_cancel(move || drop(bad));
        let count = notified.clone();
        answer.on_complete(move |_| count.note());
        if share {
            promise.share().try_succeed(1).unwrap();
        } else {
            promise.succeed(1).unwrap();
        }
        assert_eq!(answer.wait().unwrap(), 1);
    }
    assert_eq!(notified.count(), 2);
    assert_eq!(home.unhandled().len(), 2);
}

#[test]
fn a_removed_listener_is_not_called() {
    let (promise, answer) = promise::<u32>();
    let log = Log::new();
    let listeners: Vec<_> = (0..4)
        .map(|n| {
            let log = log.clone();
            answer.on_complete(move |_| log.push(n))
        })
        .collect();
    assert!(
        answer.remove_listener(&listeners[0]),
        "the first, in the block"
    );
    assert!(
        answer.remove_listener(&listeners[2]),
        "a later one, in its own node"
    );
    assert!(!answer.remove_listener(&listeners[0]), "gone already");
    assert!(!answer.remove_listener(&listeners[2]), "gone already");
    promise.succeed(1).unwrap();
    assert_eq!(log.take(), [1, 3]);
    assert!(!answer.remove_listener(&listeners[1]), "called already");
}

#[test]
fn what_a_removed_one_captured_is_freed_at_once() {
    let (_promise, answer) = promise::<u32>();
    let drops = Counter::new();
    let captured = [DropCount::new(&drops), DropCount::new(&drops)];
    let listeners = captured.map(|captured| answer.on_complete(move |_| drop(captured)));
    for (removed, listener) in listeners.iter().enumerate() {
        assert!(answer.remove_listener(listener));
        assert_eq!(drops.count(), removed as u64 + 1);
    }
}

#[test]
fn an_id_of_another_completion_removes_nothing() {
    let (promise, answer) = promise::<u32>();
    let (other_promise, other) = tidegate_promise::promise::<u32>();
    let notified = Counter::new();
    for completion in [&answer, &other] {
        // The first one is in the block, the second one in a node.
        let ids = [(); 2].map(|()| {
            let count = notified.clone();
            completion.on_complete(move |_| count.note())
        });
        let foreign = if std::ptr::eq(completion, &answer) {
            &other
        } else {
            &answer
        };
        assert!(!ids.iter().any(|id| foreign.remove_listener(id)));
    }
    promise.succeed(1).unwrap();
    other_promise.succeed(1).unwrap();
    assert_eq!(notified.count(), 4);
}

#[test]
fn an_old_id_removes_nothing_from_a_promise_in_the_same_memory() {
    let (promise, answer) = promise::<u32>();
    let old = answer.on_complete(|_| ());
    drop((promise, answer));
    let (promise, answer) = tidegate_promise::promise::<u32>();
    let notified = Counter::new();
    let count = notified.clone();
    answer.on_complete(move |_| count.note());
    assert!(!answer.remove_listener(&old));
    promise.succeed(1).unwrap();
    assert_eq!(notified.count(), 1);
}

#[test]
fn a_running_listener_cannot_be_removed() {
    let (promise, answer) = promise::<u32>();
    let answer = Arc::new(Mutex::new(answer));
    let id = Arc::new(Mutex::new(None));
    let removed = Log::new();
    let (inside, own, log) = (Arc::clone(&answer), Arc::clone(&id), removed.clone());
    let listener = answer.lock().unwrap().on_complete(move |_| {
        let own = own.lock().unwrap().take().unwrap();
        log.push(inside.lock().unwrap().remove_listener(&own));
    });
    *id.lock().unwrap() = Some(listener);
    promise.succeed(1).unwrap();
    assert_eq!(removed.take(), [false]);
}

#[test]
fn one_added_after_the_outcome_was_taken_is_refused() {
    let (promise, mut answer) = promise::<u32>();
    promise.succeed(1).unwrap();
    assert!(answer.take().is_some());
    let drops = Counter::new();
    let captured = DropCount::new(&drops);
    let listener = answer.on_complete(move |_| {
        let _captured = captured;
        panic!("there is nothing to show");
    });
    assert!(!listener.is_accepted());
    assert!(!answer.remove_listener(&listener));
    assert_eq!(drops.count(), 1);
    answer.finally(|_| panic!("there is nothing to show"));
}

#[test]
fn keep_their_order_when_a_waker_came_first_and_was_taken_back() {
    // The waker is in the inline slot of the block. The slot must not be used again once another
    // listener was added after it.
    let (promise, mut answer) = promise::<u32>();
    let (waker, _woken) = counting_waker();
    let mut context = std::task::Context::from_waker(&waker);
    assert!(
        std::pin::Pin::new(&mut answer)
            .poll(&mut context)
            .is_pending()
    );
    let log = Log::new();
    let first = log.clone();
    answer.on_complete(move |_| first.push("first"));
    let moment = std::time::Duration::from_nanos(1);
    assert!(answer.wait_timeout(moment).unwrap_err().is_timeout());
    let second = log.clone();
    answer.on_complete(move |_| second.push("second"));
    promise.succeed(1).unwrap();
    assert_eq!(log.take(), ["first", "second"]);
}

#[test]
fn finally_listens_and_gives_the_read_end_up() {
    let (promise, answer) = promise::<u32>();
    let log = Log::new();
    let (first, last) = (log.clone(), log.clone());
    answer.on_complete(move |_| first.push(0));
    answer.finally(move |outcome| last.push(*outcome.success().unwrap()));
    promise.succeed(5).unwrap();
    assert_eq!(log.take(), [0, 5]);
    let received = log.clone();
    Completion::<u32>::succeeded(6)
        .finally(move |outcome| received.push(*outcome.success().unwrap()));
    assert_eq!(log.take(), [6]);
}

#[test]
fn fall_back_to_the_completing_thread_when_the_home_has_ended() {
    let home = Loop::new("home");
    let (promise, answer) = home.promise::<u32>();
    let log = Log::new();
    let received = log.clone();
    answer.on_complete(move |_| received.push(std::thread::current().id()));
    home.terminate();
    let completer = thread(move || {
        promise.succeed(1).unwrap();
        std::thread::current().id()
    });
    let completer = completer.join().unwrap();
    assert_eq!(log.take(), [completer]);
    let fell_back = "listeners ran elsewhere: their executor has terminated";
    assert_eq!(home.unhandled(), [fell_back]);
    let late = log.clone();
    answer.on_complete(move |_| late.push(std::thread::current().id()));
    assert_eq!(log.take(), [std::thread::current().id()]);
    assert_eq!(home.unhandled(), [fell_back]);
    assert_eq!(answer.wait().unwrap(), 1);
}

#[test]
fn can_be_large() {
    let (promise, answer) = promise::<u32>();
    let payload = [7_u64; 32];
    let log = Log::new();
    let received = log.clone();
    answer.on_complete(move |outcome| {
        received.push(outcome.success().copied().zip(payload.last().copied()))
    });
    promise.succeed(1).unwrap();
    assert_eq!(log.take(), [Some((1, 7))]);
    let (promise, answer) = tidegate_promise::promise::<u32>();
    let drops = Counter::new();
    let captured = (DropCount::new(&drops), payload);
    let listener = answer.on_complete(move |_| drop(captured));
    assert!(answer.remove_listener(&listener));
    assert_eq!(drops.count(), 1);
    drop(promise);
}
