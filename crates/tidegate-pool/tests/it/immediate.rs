//! The immediate executor runs tasks on the calling thread, at once, in order, without growing the
//! stack.

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use tidegate_core::internal::{Deliver, Delivery, SignalBlock};
use tidegate_core::{Clock, Executor, ManualClock, Task, ThreadBuilder};
use tidegate_pool::ImmediateExecutor;
use tidegate_testkit::{Counter, Gate, Log, explode};

#[test]
fn runs_the_task_on_the_calling_thread() {
    let here = ImmediateExecutor::new();
    let (log, seen) = Log::pair();
    here.execute(move || seen.push(thread::current().id()));
    assert_eq!(log.take(), [thread::current().id()]);
    let seen = log.clone();
    Executor::execute(&here, Task::new(move || seen.push(thread::current().id()))).unwrap();
    assert_eq!(log.take(), [thread::current().id()]);
}

#[test]
fn is_current_everywhere() {
    let here = ImmediateExecutor::new();
    assert!(here.is_current());
    let elsewhere = here.clone();
    let (tx, rx) = mpsc::channel();
    ThreadBuilder::new("other")
        .spawn(move || tx.send(elsewhere.is_current()).unwrap())
        .unwrap();
    assert!(rx.recv().unwrap());
}

#[test]
fn what_a_task_submits_runs_after_it_in_order() {
    let here = ImmediateExecutor::new();
    let log = Log::new();
    let (inner, seen) = (here.clone(), log.clone());
    here.execute(move || {
        for number in [1, 2] {
            let (inner_most, seen_in) = (inner.clone(), seen.clone());
            inner.execute(move || {
                seen_in.push(number);
                inner_most.execute(move || seen_in.push(number + 10));
            });
        }
        seen.push(0);
    });
    assert_eq!(log.take(), [0, 1, 2, 11, 12]);
}

#[test]
fn a_long_chain_does_not_grow_the_stack() {
    fn link(here: &[ImmediateExecutor; 2], left: u32, runs: &Counter) {
        runs.hit();
        if left > 0 {
            let (next, runs) = (here.clone(), runs.clone());
            // Two executors that submit to each other share the thread's queue.
            here[left as usize % 2].execute(move || link(&next, left - 1, &runs));
        }
    }
    let here = [ImmediateExecutor::new(), ImmediateExecutor::new()];
    let runs = Counter::new();
    let (chain, counted) = (here, runs.clone());
    let small = ThreadBuilder::new("small").stack_size(64 * 1024);
    let thread = small
        .spawn(move || link(&chain, 100_000, &counted))
        .unwrap();
    assert!(thread.join().unwrap());
    assert_eq!(runs.count(), 100_001);
}

#[test]
fn a_panic_is_counted_and_what_waits_still_runs() {
    let here = ImmediateExecutor::new();
    let log = Log::new();
    let (inner, seen) = (here.clone(), log.clone());
    here.execute(move || {
        inner.execute(|| panic!("on purpose"));
        inner.execute(seen.pushes("queued"));
        panic!("on purpose");
    });
    here.execute(log.pushes("later"));
    assert_eq!(log.take(), ["queued", "later"]);
    assert_eq!(here.panics(), 2);
}

#[test]
fn a_panic_whose_payload_panics_is_contained() {
    let here = ImmediateExecutor::new();
    here.execute(|| explode());
    let ran = Counter::new();
    here.execute(ran.hits());
    assert_eq!((ran.count(), here.panics()), (1, 1));
}

#[test]
fn signals_are_delivered_on_the_spot_and_in_order() {
    struct LogSignal(Log<&'static str>, &'static str);
    impl Deliver for LogSignal {
        fn deliver(block: Arc<SignalBlock<Self>>, how: Delivery) {
            assert_eq!(how, Delivery::Home);
            block.0.push(block.1);
        }
    }
    let here = ImmediateExecutor::new();
    let log = Log::new();
    let (inner, seen) = (here.clone(), log.clone());
    here.execute(move || {
        let tell = SignalBlock::new(LogSignal(seen.clone(), "signal"));
        inner.signal(tell.raise().unwrap()).unwrap();
        seen.push("task");
    });
    assert_eq!(log.take(), ["task", "signal"]);
}

#[test]
fn listeners_of_its_promises_run_where_they_complete() {
    let here = ImmediateExecutor::new();
    let (log, seen) = Log::pair();
    let (promise, answer) = here.promise::<u32>();
    answer.on_complete(move |_| seen.push(thread::current().id()));
    promise.succeed(1).unwrap();
    assert_eq!(log.take(), [thread::current().id()]);
    let (promise, answer) = here.promise::<u32>();
    answer.on_complete(|_| panic!("on purpose"));
    promise.succeed(1).unwrap();
    assert_eq!(here.panics(), 1);
}

#[test]
fn a_wait_for_its_promise_is_not_refused() {
    let here = ImmediateExecutor::new();
    let (promise, answer) = here.promise::<u32>();
    let (waiting, go_on) = (Gate::new(), Gate::new());
    let other = {
        let go_on = go_on.clone();
        ThreadBuilder::new("other").spawn(move || {
            go_on.wait();
            promise.succeed(7).unwrap();
        })
    };
    let log = Log::new();
    let (seen, arrived) = (log.clone(), waiting.clone());
    here.execute(move || {
        // The thread is "current" on this executor, but may wait, because it is a plain thread.
        arrived.open();
        go_on.open();
        seen.push(answer.wait().unwrap());
    });
    waiting.wait();
    assert_eq!(log.take(), [7]);
    assert!(other.unwrap().join().unwrap());
}

#[test]
fn has_a_name_a_clock_and_an_identity() {
    let manual = ManualClock::new();
    let here = ImmediateExecutor::with_clock(Clock::from(&manual));
    assert_eq!((here.name(), here.width()), ("immediate", usize::MAX));
    assert!(here.clock().is_manual());
    assert_eq!(here.id(), here.clone().id());
    assert_ne!(here.id(), ImmediateExecutor::default().id());
    assert!(format!("{here:?}").contains("ImmediateExecutor"));
}
