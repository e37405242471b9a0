//! The dump of a strategy: the same for all of them, and what some show in addition.

use std::sync::Arc;
use std::thread;

use tidegate_core::{Blocking, Dump, Rejected};
use tidegate_pool::WorkerPool;
use tidegate_pool::strategy::{Adaptive, EatWhatYouKill, Strategy, StrategyMetrics};
use tidegate_testkit::{Gate, Log, rounds};

use super::{Kind, Place, Stage, everywhere};

fn count(dump: &Dump, key: &str) -> u64 {
    dump.get(key).map_or(0, |value| value.as_count().unwrap())
}

fn state(dump: &Dump) -> &str {
    dump.get("state").unwrap().as_text().unwrap()
}

fn assert_agrees(dump: &Dump, metrics: &StrategyMetrics) {
    let pairs = [
        ("tasks", metrics.tasks()),
        ("pc", metrics.pc),
        ("pic", metrics.pic),
        ("pec", metrics.pec),
        ("epc", metrics.epc),
        ("lent", metrics.lent),
        ("helpers", metrics.helpers),
        ("task_panics", metrics.task_panics),
        ("producer_panics", metrics.producer_panics),
    ];
    for (key, figure) in pairs {
        assert_eq!(count(dump, key), figure, "{key} in {dump}");
    }
}

#[test]
fn the_dump_of_every_strategy_agrees_with_its_metrics() {
    everywhere(|stage| {
        for n in 0..6 {
            let kinds = [Blocking::May, Blocking::Never, Blocking::Adapts];
            stage.source.add(kinds[n % 3], || ());
        }
        stage.produce_and_settle();
        let strategy = stage.strategy();
        let dump = strategy.dump();
        assert_eq!((dump.kind(), dump.name()), ("strategy", strategy.name()));
        assert_eq!((state(&dump), count(&dump, "tasks")), ("idle", 6));
        assert!(dump.get("executor").is_some());
        assert_agrees(&dump, &strategy.metrics());
        strategy.shutdown();
        assert_eq!(state(&strategy.dump()), "shut down");
    });
}

#[test]
fn a_task_can_dump_the_strategy_that_runs_it() {
    let stage = Stage::new(Kind::Pc, Place::ReservedWorkers);
    let (strategy, log) = (stage.strategy(), Log::new());
    let told = log.clone();
    stage.source.add(Blocking::Never, move || {
        told.push(state(&strategy.dump()).to_owned());
    });
    stage.produce();
    log.assert_order(&["producing".to_owned()]);
}

#[test]
fn a_strategy_shows_the_mode_that_it_is_in() {
    let pool = WorkerPool::builder("workers").max(4).build().unwrap();
    let pool = Arc::new(pool);
    let rule = EatWhatYouKill::new(|| None, pool.clone());
    assert_eq!(rule.dump().get("pool_is_low"), Some(&false.into()));
    rule.low_threads(100);
    assert_eq!(rule.dump().get("pool_is_low"), Some(&true.into()));
    let adaptive = Adaptive::new(|| None, pool);
    assert_eq!(adaptive.dump().get("late_hand_over"), Some(&false.into()));
    assert_eq!(adaptive.dump().get("monitor"), None);
}

#[test]
fn a_strategy_of_the_users_own_has_a_dump() {
    struct Own;
    impl Strategy for Own {
        fn produce(&self) {}
        fn dispatch(&self) -> Result<(), Rejected<()>> {
            Ok(())
        }
        fn shutdown(&self) -> bool {
            false
        }
        fn is_idle(&self) -> bool {
            true
        }
        fn is_shutdown(&self) -> bool {
            false
        }
        fn metrics(&self) -> StrategyMetrics {
            StrategyMetrics::default()
        }
        fn reset_metrics(&self) {}
        fn name(&self) -> &'static str {
            "Own"
        }
    }
    assert_eq!(
        Own.dump().to_string(),
        "strategy Own\n   state           idle\n   low_on_threads  no\n   tasks           0"
    );
}

/// Dumps do not disturb a strategy that produces on one thread and is shut down on another.
#[test]
fn dumps_while_tasks_run_and_the_strategy_ends() {
    for kind in super::KINDS {
        let stage = Stage::new(kind, Place::ReservedWorkers);
        let strategy = stage.strategy();
        let (begin, rounds) = (Gate::new(), rounds(50));
        for _ in 0..rounds {
            stage.source.add(Blocking::Never, || ());
        }
        thread::scope(|scope| {
            let (seen, start) = (Arc::clone(&strategy), begin.clone());
            scope.spawn(move || {
                start.open();
                for _ in 0..rounds {
                    assert!(count(&seen.dump(), "tasks") <= rounds as u64);
                }
            });
            begin.wait();
            stage.produce();
            strategy.shutdown();
        });
        assert_eq!(state(&strategy.dump()), "shut down");
        assert_agrees(&strategy.dump(), &strategy.metrics());
    }
}
