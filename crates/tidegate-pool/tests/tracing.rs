//! What a subscriber of `tracing` sees of pools: refusals, and the spans of callers on the threads
//! of the pool.
#![cfg(not(tidegate_loom))]
#![expect(
    clippy::unwrap_used,
    reason = "in a test an unwrap is an assertion, in its helpers too"
)]

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{ManualClock, Task};
use tidegate_pool::{OrderedView, WorkerPool, WorkerPoolBuilder};
use tidegate_promise::promise;
use tidegate_testkit::{Gate, Recorder, Stop};
use tracing::info_span;
use tracing::subscriber::with_default;

const SECOND: Duration = Duration::from_secs(1);

/// Creates a builder for a pool of one thread, which does not end when it is idle.
fn one_thread() -> WorkerPoolBuilder {
    let builder = WorkerPool::builder("workers").keep_alive(Duration::ZERO);
    builder.core(1).max(1).reserved(0)
}

/// Keeps the only thread of the pool busy until the returned gate is opened.
fn hold(pool: &WorkerPool) -> Gate {
    let stop = Stop::new();
    let hold = stop.closure();
    pool.execute(hold).unwrap();
    stop.reached()
}

#[test]
fn refusals_are_an_event_at_most_once_in_a_second_with_the_number_left_out() {
    let clock = ManualClock::new();
    let pool = one_thread().queue(1).clock(&clock).build().unwrap();
    let go_on = hold(&pool);
    pool.execute(|| ()).unwrap();
    let recorder = Recorder::new();
    with_default(recorder.clone(), || {
        for _ in 0..3 {
            assert!(pool.execute(|| ()).is_err());
        }
        clock.jump(SECOND);
        assert!(pool.execute(|| ()).is_err());
    });
    go_on.open();
    let events = recorder.events("refused");
    let left_out: Vec<_> = events.iter().map(|event| event.field("left_out")).collect();
    assert_eq!(left_out, [Some("0"), Some("2")]);
    assert_eq!(events[0].field("kind"), Some("pool"));
    assert_eq!(events[0].field("name"), Some("workers"));
    assert!(events[0].field("reason").unwrap().contains("full"));
    pool.shutdown(60 * SECOND).wait().unwrap();
}

#[test]
fn tasks_and_schedules_run_in_the_span_of_their_caller() {
    let clock = ManualClock::new();
    let pool = one_thread().clock(&clock).build().unwrap();
    let recorder = Recorder::new();
    let seen = || {
        let recorder = recorder.clone();
        move || recorder.current()
    };
    let (now, named, later) = with_default(recorder.clone(), || {
        let _inside = info_span!("request").entered();
        let now = pool.submit(seen()).unwrap();
        let (promise, named) = promise();
        let look = seen();
        let tell = move || drop(promise.succeed(look()));
        pool.execute_task(Task::named("look", tell)).unwrap();
        (now, named, pool.schedule(SECOND, seen()).unwrap())
    });
    assert_eq!(now.wait().unwrap(), ["request"]);
    assert_eq!(named.wait().unwrap(), ["request"]);
    clock.advance(SECOND);
    assert_eq!(later.wait().unwrap(), ["request"]);
    let outside = pool.submit(seen()).unwrap();
    assert!(outside.wait().unwrap().is_empty());
    pool.shutdown(60 * SECOND).wait().unwrap();
}

#[test]
fn a_view_runs_each_task_in_the_span_of_its_own_caller() {
    let pool = one_thread().core(2).max(2).build().unwrap();
    let view = OrderedView::over(Arc::new(pool.clone())).unwrap();
    let go_on = [hold(&pool), hold(&pool)];
    let recorder = Recorder::new();
    // The first one submits the turn that runs all of them.
    let answers: Vec<_> = ["first", "", "third"]
        .into_iter()
        .map(|span| {
            let (promise, answer) = promise();
            let look = recorder.clone();
            let tell = move || drop(promise.succeed(look.current()));
            with_default(recorder.clone(), || match span {
                "first" => info_span!("first").in_scope(|| view.execute(tell)),
                "third" => info_span!("third").in_scope(|| view.execute(tell)),
                _ => view.execute(tell),
            })
            .unwrap();
            answer
        })
        .collect();
    go_on.iter().for_each(Gate::open);
    let seen: Vec<_> = answers.into_iter().map(|one| one.wait().unwrap()).collect();
    assert_eq!(seen, [vec!["first"], vec![], vec!["third"]]);
    pool.shutdown(60 * SECOND).wait().unwrap();
}

#[test]
fn a_pool_survives_a_subscriber_that_panics() {
    let pool = one_thread().build().unwrap();
    let go_on = hold(&pool);
    let recorder = Recorder::new();
    let answers: Vec<_> = with_default(recorder.clone(), || {
        let _inside = info_span!("request").entered();
        (0..3).map(|n| pool.submit(move || n).unwrap()).collect()
    });
    recorder.set_panics(true);
    go_on.open();
    for (number, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer.wait().unwrap(), number);
    }
    let report = pool.shutdown(60 * SECOND).wait();
    assert!(report.is_ok());
    assert_eq!(pool.metrics().panics, 0);
}
