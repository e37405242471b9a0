//! The function that supplies the parts of a pool.

use std::sync::{Arc, OnceLock};

use tidegate_isolate::{Bulkhead, ConcurrencyStrategy, Isolation, Key};
use tidegate_testkit::{Gate, Log};

use super::queues::Ranked;
use super::{others_go_on, queue_up};
use crate::support::{builder, hold, pool_of};

#[test]
fn a_strategy_that_panics_refuses_the_command_that_needs_it() {
    let isolation = Isolation::builder().concurrency_strategy(|pool: &Key| match &**pool {
        "a" => panic!("on purpose"),
        _ => ConcurrencyStrategy::default(),
    });
    let isolation = isolation.build().unwrap();
    let error = builder("a").threads(pool_of(1, 1)).build(&isolation);
    let error = error.unwrap_err();
    assert_eq!(
        (error.key(), error.property()),
        ("a", "concurrency strategy")
    );
    assert!(error.reason().contains("panicked: on purpose"), "{error}");
    let permits = builder("a").build(&isolation).unwrap();
    assert_eq!(permits.run(|_| Ok(1)), Ok(1), "permits need no pool");
    let error = permits.configure(|c| c.bulkhead = Bulkhead::Threads);
    assert_eq!(error.unwrap_err().property(), "concurrency strategy");
    assert_eq!(permits.run(|_| Ok(1)), Ok(1), "the old settings stay");
    others_go_on(&isolation);
}

#[test]
fn a_strategy_may_use_the_isolation_and_serves_a_live_change() {
    let isolation = Arc::new(OnceLock::<Isolation>::new());
    let inner = Arc::clone(&isolation);
    let built = Isolation::builder().concurrency_strategy(move |pool: &Key| {
        if let (Some(isolation), "a") = (inner.get(), &**pool) {
            assert!(isolation.pool("a").is_none());
            others_go_on(isolation);
        }
        ConcurrencyStrategy::default().queue(Ranked::default())
    });
    isolation.set(built.build().unwrap()).unwrap();
    let isolation = isolation.get().unwrap();
    let command = builder("a").no_timeout().build(isolation).unwrap();
    command
        .configure(|c| (c.bulkhead, c.pool) = (Bulkhead::Threads, pool_of(1, 5)))
        .unwrap();
    let (go_on, log) = (Gate::new(), Log::new());
    let held = hold(&command, &go_on);
    let answers = queue_up(&command, &log, 0..3);
    go_on.open();
    held.wait().unwrap();
    for answer in answers {
        answer.wait().unwrap();
    }
    log.assert_order(&[2, 1, 0]);
}
