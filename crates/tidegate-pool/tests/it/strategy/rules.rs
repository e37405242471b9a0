//! The guarantees of each strategy beyond those that all of them give.

use std::sync::Arc;
use std::thread;

use tidegate_core::{Blocking, Rejected, Task};
use tidegate_pool::strategy::{EatWhatYouKill, ProduceExecuteConsume, Producer, Strategy};
use tidegate_testkit::Log;

use super::{Kind, ManualExecutor, Place, Source, Stage};

#[test]
fn produce_consume_runs_all_kinds_in_order_on_the_caller() {
    let stage = Stage::new(Kind::Pc, Place::ReservedWorkers);
    let log = Log::new();
    for n in 0..9 {
        let (log, here) = (log.clone(), thread::current().id());
        let kinds = [Blocking::May, Blocking::Never, Blocking::Adapts];
        stage.source.add(kinds[n % 3], move || {
            assert_eq!(thread::current().id(), here);
            log.push(n);
        });
    }
    stage.produce();
    assert_eq!(log.take(), (0..9).collect::<Vec<_>>());
    assert_eq!(stage.made.strategy.metrics().pc, 9);
}

#[test]
fn produce_consume_produces_nothing_while_a_task_runs() {
    let stage = Stage::new(Kind::Pc, Place::ReservedWorkers);
    let (source, strategy) = (stage.source.clone(), stage.strategy());
    stage.source.add(Blocking::May, move || {
        let polls = source.polls();
        source.add(Blocking::Never, || ());
        super::elsewhere(|| strategy.produce());
        assert_eq!(source.polls(), polls);
    });
    stage.produce();
    assert_eq!(stage.source.ran.count(), 2);
    assert!(stage.executor.unhandled.is_empty());
}

#[test]
fn two_dispatches_of_produce_consume_are_two_jobs() {
    let stage = Stage::new(Kind::Pc, Place::ReservedWorkers);
    stage.made.strategy.dispatch().unwrap();
    stage.made.strategy.dispatch().unwrap();
    assert_eq!(stage.executor.queued(), 2);
}

#[test]
fn produce_execute_consume_gives_away_what_may_block_and_goes_on() {
    let stage = Stage::new(Kind::Pec, Place::ReservedWorkers);
    for kind in [Blocking::May, Blocking::Adapts, Blocking::Never] {
        stage.source.add(kind, || ());
    }
    stage.produce();
    assert_eq!((stage.source.ran.count(), stage.executor.queued()), (1, 2));
    let counts = stage.made.strategy.metrics();
    assert_eq!((counts.pc, counts.pec), (1, 2));
}

#[test]
fn the_thread_that_produced_a_task_runs_it_and_the_helper_produces() {
    let stage = Stage::new(Kind::Epc, Place::ReservedWorkers);
    let (here, log) = (thread::current().id(), Log::new());
    let (executor, notified) = (Arc::clone(&stage.executor), log.clone());
    stage.source.add(Blocking::May, move || {
        notified.push(("first", thread::current().id() == here));
        // The helper arrives while this task runs.
        assert!(executor.run_queued());
        notified.push(("first ends", true));
    });
    let notified = log.clone();
    stage.source.add(Blocking::Never, move || {
        notified.push(("second", thread::current().id() == here));
    });
    stage.produce();
    let expected = [("first", true), ("second", false), ("first ends", true)];
    assert_eq!(log.take(), expected);
    assert!(stage.made.strategy.is_idle());
}

#[test]
fn one_helper_is_on_its_way_at_a_time() {
    let stage = Stage::new(Kind::Epc, Place::ReservedWorkers);
    (0..5).for_each(|_| stage.source.add(Blocking::May, || ()));
    stage.produce();
    assert_eq!((stage.source.ran.count(), stage.executor.queued()), (5, 1));
    assert_eq!(stage.made.strategy.metrics().helpers, 1);
}

#[test]
fn a_helper_that_comes_too_late_does_nothing() {
    let stage = Stage::new(Kind::Epc, Place::ReservedWorkers);
    stage.source.add(Blocking::May, || ());
    stage.produce();
    let polls = stage.source.polls();
    stage.executor.settle();
    assert_eq!(stage.source.polls(), polls);
    assert_eq!(stage.made.strategy.metrics().idle_helpers, 1);
    // The next task requests another helper.
    stage.source.add(Blocking::May, || ());
    stage.produce();
    assert_eq!(stage.executor.queued(), 1);
}

#[test]
fn after_its_task_a_thread_leaves_production_to_the_producing_thread() {
    let stage = Stage::new(Kind::Epc, Place::ReservedWorkers);
    let (here, log) = (thread::current().id(), Log::new());
    let executor = Arc::clone(&stage.executor);
    stage
        .source
        .add(Blocking::May, move || assert!(executor.run_queued()));
    for _ in 0..3 {
        let log = log.clone();
        stage.source.add(Blocking::Never, move || {
            log.push(thread::current().id() == here);
        });
    }
    stage.produce();
    assert_eq!(log.take(), [false, false, false]);
}

#[test]
fn a_refused_helper_is_requested_again_with_the_next_task() {
    let stage = Stage::new(Kind::Epc, Place::ReservedWorkers);
    let executor = Arc::clone(&stage.executor);
    stage.executor.refuse(true);
    stage
        .source
        .add(Blocking::May, move || executor.refuse(false));
    stage.source.add(Blocking::May, || ());
    stage.produce();
    assert_eq!(stage.source.ran.count(), 2);
    let counts = stage.made.strategy.metrics();
    assert_eq!((counts.helpers_refused, counts.epc), (1, 2));
    assert_eq!(stage.executor.queued(), 1, "the second helper");
}

#[test]
fn without_a_helper_the_next_caller_takes_over_production() {
    let stage = Stage::new(Kind::Epc, Place::ReservedWorkers);
    stage.executor.refuse(true);
    let (source, strategy) = (stage.source.clone(), stage.strategy());
    stage.source.add(Blocking::May, move || {
        super::elsewhere(|| strategy.produce());
        assert_eq!(source.ran.count(), 2, "the other one ran meanwhile");
    });
    stage.source.add(Blocking::Never, || ());
    stage.produce();
    assert!(stage.executor.unhandled.is_empty());
    assert_eq!(stage.source.ran.count(), 2);
}

#[test]
fn low_on_threads_the_old_rule_hands_over_and_leaves_that_mode_again() {
    let (executor, source) = (ManualExecutor::new(3), Source::new());
    let strategy = EatWhatYouKill::new(source.producer(), executor.clone());
    let step = |expected: (u64, u64), mode: (bool, u64)| {
        source.add(Blocking::May, || ());
        source.add(Blocking::Never, || ());
        strategy.produce();
        executor.settle();
        let counts = strategy.metrics();
        assert_eq!((counts.epc, counts.pec), expected);
        assert_eq!((counts.low_on_threads, counts.mode_switches), mode);
    };
    step((1, 0), (false, 0));
    executor.set_reserve(1);
    assert!(strategy.is_low());
    step((1, 1), (true, 1));
    step((1, 2), (true, 1));
    executor.set_may_start(5);
    assert!(!strategy.is_low());
    step((2, 2), (false, 2));
    strategy.low_threads(6);
    step((2, 3), (true, 3));
    assert_eq!(source.ran.count(), 10);
    assert!(
        strategy
            .metrics()
            .to_string()
            .ends_with("mode switches 3, low on threads")
    );
    strategy.reset_metrics();
    assert_eq!(strategy.metrics().to_string(), "low on threads");
}

/// Without a hook for refused tasks, the producer gets its task back.
#[test]
fn a_refused_task_goes_back_to_its_producer() {
    struct Returned(Vec<Task>, Log<&'static str>);

    impl Producer for Returned {
        fn produce(&mut self) -> Option<Task> {
            self.0.pop()
        }

        fn refused(&mut self, refused: Rejected<Task>) {
            self.1.push(refused.into_inner().name());
            panic!("on purpose");
        }
    }

    let log = Log::new();
    let executor = ManualExecutor::new(0);
    executor.refuse(true);
    let tasks = ["second", "first"].map(|name| Task::named(name, || ()));
    let producer = Returned(tasks.into(), log.clone());
    let strategy = ProduceExecuteConsume::new(producer, executor);
    strategy.produce();
    log.assert_order(&["first", "second"]);
    assert_eq!(strategy.metrics().refused, 2);
    assert!(strategy.is_idle());
}

#[test]
fn low_on_threads_a_refused_task_is_closed_not_queued() {
    let stage = Stage::new(Kind::Ewyk, Place::NoReserve);
    stage.executor.refuse(true);
    stage.source.add(Blocking::May, || ());
    stage.produce();
    assert_eq!(
        (stage.source.ran.count(), stage.source.gone.count()),
        (0, 1)
    );
    assert_eq!(stage.refused.count(), 1);
}

#[test]
fn a_task_that_says_nothing_may_block() {
    let stage = Stage::new(Kind::Pec, Place::ReservedWorkers);
    stage.source.push(Task::new(|| ()));
    stage.source.push(Task::named("named", || ()));
    stage.produce();
    assert_eq!(stage.made.strategy.metrics().pec, 2);
}

#[test]
fn strategies_report_their_names() {
    let names: Vec<_> = super::KINDS
        .into_iter()
        .map(|kind| {
            Stage::new(kind, Place::ReservedWorkers)
                .made
                .strategy
                .name()
        })
        .collect();
    let expected = [
        "ProduceConsume",
        "ProduceExecuteConsume",
        "ExecuteProduceConsume",
        "EatWhatYouKill",
        "Adaptive",
        "Adaptive",
    ];
    assert_eq!(names, expected);
}
