//! Guarantees of every strategy, wherever its threads come from.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use tidegate_core::executor::{WaitPolicy, wait_policy};
use tidegate_core::{Blocking, RejectReason, Task};
use tidegate_pool::strategy::Strategy;
use tidegate_testkit::{Counter, DropCount, Log};

use super::{KINDS, Kind, PLACES, Place, Source, Stage, by_hand, elsewhere, everywhere};

const ALL: [Blocking; 3] = [Blocking::Never, Blocking::Adapts, Blocking::May];

/// Runs `test` with every strategy in every place.
fn each(test: impl Fn(Kind, Place)) {
    for kind in KINDS {
        PLACES.into_iter().for_each(|place| test(kind, place));
    }
}

fn add_some(source: &Source, count: usize) {
    for n in 0..count {
        source.add(ALL[n % 3], || ());
    }
}

#[test]
fn every_task_runs_once() {
    everywhere(|stage| {
        add_some(&stage.source, 30);
        stage.produce_and_settle();
        let (ran, gone) = (stage.source.ran.count(), stage.source.gone.count());
        assert_eq!((ran, gone), (30, 30), "{stage}");
        assert_eq!(stage.refused.count(), 0, "{stage}");
    });
}

#[test]
fn nothing_means_idle_until_the_next_call() {
    everywhere(|stage| {
        stage.produce_and_settle();
        let polls = stage.source.polls();
        add_some(&stage.source, 3);
        stage.settle();
        assert_eq!((stage.source.polls(), stage.source.ran.count()), (polls, 0));
        stage.produce_and_settle();
        assert_eq!(stage.source.ran.count(), 3, "{stage}");
    });
}

/// Creates a stage whose producer runs `act` once, on another thread, before it returns `None`.
fn meanwhile(
    kind: Kind,
    place: Place,
    act: impl Fn(&Source, &Arc<dyn Strategy>) + Send + Sync + 'static,
) -> Stage {
    let source = Source::new();
    let strategy: Arc<std::sync::OnceLock<Arc<dyn Strategy>>> = Arc::default();
    let (inner, own) = (source.clone(), Arc::clone(&strategy));
    let mut once = true;
    let producer = move || {
        let task = inner.next();
        if task.is_none() && std::mem::take(&mut once) {
            elsewhere(|| act(&inner, own.get().unwrap()));
        }
        task
    };
    let stage = Stage::over(kind, place, &source, Box::new(producer));
    assert!(strategy.set(stage.strategy()).is_ok());
    stage
}

#[test]
fn demand_while_the_producer_says_nothing_is_not_lost() {
    each(|kind, place| {
        let stage = meanwhile(kind, place, |source, strategy| {
            source.add(Blocking::May, || ());
            strategy.produce();
        });
        stage.produce_and_settle();
        assert_eq!(stage.source.ran.count(), 1, "{stage}");
    });
}

#[test]
fn dispatch_while_the_producer_says_nothing_is_not_lost() {
    each(|kind, place| {
        let stage = meanwhile(kind, place, |source, strategy| {
            source.add(Blocking::May, || ());
            strategy.dispatch().unwrap();
        });
        stage.produce_and_settle();
        assert_eq!(stage.source.ran.count(), 1, "{stage}");
    });
}

#[test]
fn any_number_of_calls_in_one_round_is_one_more_round() {
    each(|kind, place| {
        let stage = meanwhile(kind, place, |_, strategy| {
            (0..10).for_each(|_| strategy.produce());
        });
        stage.produce_and_settle();
        assert_eq!(stage.source.polls(), 2, "{stage}");
    });
}

#[test]
fn dispatch_runs_nothing_on_the_caller() {
    everywhere(|stage| {
        let caller = thread::current().id();
        let places = Log::new();
        for kind in ALL {
            let places = places.clone();
            stage
                .source
                .add(kind, move || places.push(thread::current().id()));
        }
        stage.made.strategy.dispatch().unwrap();
        if stage.place != Place::Pool {
            assert_eq!((stage.source.polls(), places.len()), (0, 0), "{stage}");
        }
        stage.settle();
        let places = places.take();
        assert_eq!(places.len(), 3, "{stage}");
        assert!(!places.contains(&caller), "{stage}");
    });
}

#[test]
fn a_panicking_task_is_only_its_own_end() {
    everywhere(|stage| {
        for kind in ALL {
            stage.source.add(kind, || panic!("on purpose"));
            stage.source.add(kind, || ());
        }
        stage.produce_and_settle();
        let (ran, gone) = (stage.source.ran.count(), stage.source.gone.count());
        assert_eq!((ran, gone), (6, 6), "{stage}");
        stage.executor.unhandled.wait_for(3);
        assert_eq!(stage.executor.unhandled.len(), 3, "{stage}");
        add_some(&stage.source, 3);
        stage.produce_and_settle();
        assert_eq!(stage.source.ran.count(), 9, "{stage}");
    });
}

#[test]
fn a_panicking_producer_is_called_again() {
    each(|kind, place| {
        let source = Source::new();
        let inner = source.clone();
        let mut turn = 0;
        let producer = move || {
            turn += 1;
            assert!(turn % 2 == 0, "on purpose");
            inner.next()
        };
        let stage = Stage::over(kind, place, &source, Box::new(producer));
        add_some(&source, 3);
        stage.produce_and_settle();
        assert_eq!(source.ran.count(), 3, "{stage}");
        assert_eq!(stage.made.strategy.metrics().producer_panics, 4, "{stage}");
        stage.executor.unhandled.wait_for(1);
        let message = stage.executor.unhandled.take();
        assert_eq!(message[0], "a producer panicked: on purpose");
    });
}

#[test]
fn a_producer_that_only_panics_frees_the_thread_and_is_called_by_the_next_call() {
    for kind in KINDS {
        let source = Source::new();
        let inner = source.clone();
        let broken = Arc::new(AtomicBool::new(true));
        let is_broken = Arc::clone(&broken);
        let producer = move || {
            assert!(!is_broken.load(Ordering::Relaxed), "on purpose");
            inner.next()
        };
        let stage = Stage::over(kind, Place::ReservedWorkers, &source, Box::new(producer));
        add_some(&source, 3);
        stage.produce_and_settle();
        assert_eq!((source.ran.count(), source.polls()), (0, 0), "{stage}");
        broken.store(false, Ordering::Relaxed);
        stage.produce_and_settle();
        assert_eq!(source.ran.count(), 3, "{stage}");
    }
}

#[test]
fn a_refused_task_is_closed_once_and_production_goes_on() {
    by_hand(|stage| {
        stage.executor.refuse(true);
        add_some(&stage.source, 9);
        stage.produce_and_settle();
        let (ran, refused) = (stage.source.ran.count(), stage.refused.count());
        assert_eq!(
            (ran + refused, stage.source.gone.count()),
            (9, 9),
            "{stage}"
        );
        assert_eq!(stage.made.strategy.metrics().refused, refused, "{stage}");
        stage.executor.refuse(false);
        add_some(&stage.source, 9);
        stage.produce_and_settle();
        let ran = stage.source.ran.count();
        assert_eq!(
            (ran + refused, stage.source.gone.count()),
            (18, 18),
            "{stage}"
        );
    });
}

#[test]
fn a_hook_for_refused_tasks_may_panic() {
    use super::{ManualExecutor, make};
    let source = Source::new();
    let executor = ManualExecutor::new(0);
    let made = make(Kind::Pec, source.producer(), executor.clone(), |_| {
        panic!("on purpose")
    });
    executor.refuse(true);
    add_some(&source, 9);
    made.strategy.produce();
    assert!(made.strategy.is_idle());
    assert_eq!(source.gone.count(), 9);
}

#[test]
fn a_refused_dispatch_is_an_error_and_the_next_one_works() {
    by_hand(|stage| {
        add_some(&stage.source, 3);
        stage.executor.refuse(true);
        let refused = stage.made.strategy.dispatch().unwrap_err();
        assert_eq!(refused.why(), RejectReason::Full);
        stage.executor.refuse(false);
        stage.made.strategy.dispatch().unwrap();
        stage.settle();
        assert_eq!(stage.source.ran.count(), 3, "{stage}");
        assert!(stage.made.strategy.is_idle(), "{stage}");
    });
}

#[test]
fn a_dispatch_that_was_dropped_with_its_queue_does_not_stop_the_next_one() {
    by_hand(|stage| {
        add_some(&stage.source, 3);
        stage.made.strategy.dispatch().unwrap();
        stage.executor.drop_all();
        stage.made.strategy.dispatch().unwrap();
        stage.settle();
        assert_eq!(stage.source.ran.count(), 3, "{stage}");
    });
}

#[test]
fn a_stop_in_the_middle_ends_in_order_and_a_restart_works() {
    each(|kind, place| {
        for what in ALL {
            stop_in_the_middle(kind, place, what);
        }
    });
}

fn stop_in_the_middle(kind: Kind, place: Place, what: Blocking) {
    let source = Source::new();
    let dropped = Counter::new();
    let (inner, end) = (source.clone(), DropCount::new(&dropped));
    let producer = move || {
        let _end = &end;
        inner.next()
    };
    let stage = Stage::over(kind, place, &source, Box::new(producer));
    let strategy = stage.strategy();
    source.add(what, move || assert!(strategy.shutdown()));
    add_some(&source, 3);
    stage.produce();
    stage.settle();
    assert!(stage.made.strategy.is_shutdown(), "{stage}");
    assert_eq!(dropped.count(), 1, "{stage}");
    let (ran, gone) = (source.ran.count(), source.gone.count());
    assert_eq!(ran, gone, "what was produced was consumed: {stage}");

    // A second stop, and calls after it.
    assert!(!stage.made.strategy.shutdown());
    stage.produce();
    let late = stage.made.strategy.dispatch().unwrap_err();
    assert_eq!(late.why(), RejectReason::Closed);
    stage.settle();
    assert_eq!(source.ran.count(), ran, "{stage}");

    assert!(stage.made.restart(source.producer()), "{stage}");
    assert!(!stage.made.restart(source.producer()), "it runs");
    stage.produce_and_settle();
    assert_eq!(source.ran.count(), 4, "{stage}");
}

#[test]
fn a_stop_while_it_produces_gives_the_producer_up() {
    each(|kind, place| {
        let stage = meanwhile(kind, place, |source, strategy| {
            source.add(Blocking::May, || ());
            assert!(strategy.shutdown() && !strategy.is_shutdown());
        });
        stage.produce();
        stage.settle();
        assert!(stage.made.strategy.is_shutdown(), "{stage}");
        assert_eq!(stage.source.ran.count(), 0, "{stage}");
        assert!(stage.made.restart(stage.source.producer()));
        stage.produce_and_settle();
        assert_eq!(stage.source.ran.count(), 1, "{stage}");
    });
}

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

#[test]
fn calls_from_inside_a_task_do_not_grow_the_stack() {
    fn chain(source: &Source, strategy: &Arc<dyn Strategy>, deepest: &Arc<AtomicUsize>, left: u32) {
        let next = (source.clone(), Arc::clone(strategy), Arc::clone(deepest));
        source.add(ALL[left as usize % 3], move || {
            let (source, strategy, deepest) = next;
            let depth = DEPTH.get() + 1;
            DEPTH.set(depth);
            deepest.fetch_max(depth, Ordering::Relaxed);
            if left > 0 {
                chain(&source, &strategy, &deepest, left - 1);
                strategy.produce();
                if left.is_multiple_of(7) {
                    strategy.dispatch().unwrap();
                }
            }
            DEPTH.set(depth - 1);
        });
    }
    everywhere(|stage| {
        let deepest = Arc::default();
        chain(&stage.source, &stage.strategy(), &deepest, 300);
        stage.produce_and_settle();
        assert_eq!(stage.source.ran.count(), 301, "{stage}");
        // A task on a thread of the executor may become the producer, which adds one level.
        assert!(deepest.load(Ordering::Relaxed) <= 2, "{stage}");
    });
}

#[test]
fn a_dispatch_from_inside_a_task_runs_nothing_in_it() {
    by_hand(|stage| {
        let (source, strategy) = (stage.source.clone(), stage.strategy());
        stage.source.add(Blocking::Adapts, move || {
            source.add(Blocking::Never, || ());
            let before = source.ran.count();
            strategy.dispatch().unwrap();
            assert_eq!(source.ran.count(), before);
        });
        stage.produce_and_settle();
        assert_eq!(stage.source.ran.count(), 2, "{stage}");
        assert!(stage.executor.unhandled.is_empty(), "{stage}");
    });
}

#[test]
fn a_tagged_thread_runs_no_task_that_may_block() {
    for kind in KINDS.into_iter().filter(|kind| *kind != Kind::Pc) {
        let stage = Stage::new(kind, Place::Tagged);
        let stances = Log::new();
        for _ in 0..5 {
            for kind in ALL {
                let stances = stances.clone();
                stage
                    .source
                    .add(kind, move || stances.push((kind, wait_policy())));
            }
        }
        stage.produce_and_settle();
        let stances = stances.take();
        assert_eq!(stances.len(), 15, "{stage}");
        let ran_tagged =
            |(kind, at): &(Blocking, WaitPolicy)| *kind == Blocking::May && *at != WaitPolicy::Free;
        assert!(!stances.iter().any(ran_tagged), "{stage}");
    }
}

#[test]
fn each_choice_is_counted_before_the_task_runs_and_can_be_reset() {
    everywhere(|stage| {
        let (strategy, seen) = (stage.strategy(), Log::new());
        let notified = seen.clone();
        stage.source.add(Blocking::Never, move || {
            notified.push(strategy.metrics().pc)
        });
        stage.produce_and_settle();
        assert_eq!(seen.take(), [1], "{stage}");
        add_some(&stage.source, 8);
        stage.produce_and_settle();
        assert_eq!(stage.made.strategy.metrics().tasks(), 9, "{stage}");
        stage.made.strategy.reset_metrics();
        let mut reset = stage.made.strategy.metrics();
        // Not a counter: the mode that the strategy is in.
        reset.low_on_threads = false;
        assert_eq!(reset, Default::default());
        add_some(&stage.source, 3);
        stage.produce_and_settle();
        assert_eq!(stage.made.strategy.metrics().tasks(), 3, "{stage}");
    });
}

#[test]
fn what_a_producer_writes_is_seen_by_the_next_thread_that_produces() {
    each(|kind, place| {
        let source = Source::new();
        let (inner, seen) = (source.clone(), Log::new());
        let notified = seen.clone();
        // Plain memory of the producer, which moves from thread to thread with it.
        let mut calls = 0_u64;
        let producer = move || {
            calls += 1;
            notified.push(calls);
            inner.next()
        };
        let stage = Stage::over(kind, place, &source, Box::new(producer));
        for _ in 0..10 {
            add_some(&source, 3);
            stage.made.strategy.dispatch().unwrap();
            stage.settle();
        }
        let seen = seen.take();
        let all: Vec<u64> = (1..=seen.len() as u64).collect();
        assert_eq!(seen, all, "{stage}");
    });
}

#[test]
fn all_tasks_that_never_block_make_every_strategy_the_same() {
    everywhere(|stage| {
        (0..20).for_each(|_| stage.source.add(Blocking::Never, || ()));
        stage.produce();
        assert_eq!(stage.source.ran.count(), 20, "{stage}");
        assert_eq!(stage.made.strategy.metrics().pc, 20, "{stage}");
        assert_eq!(
            (stage.executor.queued(), stage.executor.reserved_jobs()),
            (0, 0),
            "{stage}"
        );
    });
}

#[test]
fn an_empty_drop_of_a_strategy_drops_its_producer() {
    everywhere(|stage| {
        let gone = stage.source.gone.clone();
        stage.source.add(Blocking::May, || ());
        let Stage { made, source, .. } = stage;
        drop((made, source));
        assert_eq!(gone.count(), 1);
    });
}

#[test]
fn a_panic_in_the_drop_of_a_producer_goes_no_further() {
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    for kind in KINDS {
        let bad = Bad;
        let mut first = Some(Task::non_blocking(|| ()));
        let producer = move || {
            let _bad = &bad;
            first.take()
        };
        let stage = Stage::over(
            kind,
            Place::ReservedWorkers,
            &Source::new(),
            Box::new(producer),
        );
        stage.produce_and_settle();
        assert!(stage.made.strategy.shutdown());
        assert!(stage.made.strategy.is_shutdown());
    }
}
