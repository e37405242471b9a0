//! Invalid settings of a pool are errors that say what to do.

use std::time::Duration;

use tidegate_core::ManualClock;
use tidegate_pool::{PoolError, PoolLimits, PoolPolicy, WorkerPool};

use super::builder;

#[test]
fn contradictions_are_errors_that_say_what_to_do() {
    let clock = ManualClock::new();
    let no_attempts = PoolPolicy::Backoff {
        attempts: 0,
        pause: Duration::ZERO,
    };
    let bad = [
        (
            builder(&clock).core(5).max(4),
            "raise `max` or lower `core`",
        ),
        (builder(&clock).max(0), "at least one thread"),
        (builder(&clock).core(0).max(0), "at least one thread"),
        (
            builder(&clock).max(PoolLimits::MAX_THREADS + 1),
            "use at most 32767",
        ),
        (
            builder(&clock).core(usize::MAX).max(usize::MAX),
            "use at most 32767",
        ),
        (builder(&clock).max(4).reserved(5), "use at most 4 here"),
        (builder(&clock).max(100).reserved(65), "use at most 64 here"),
        (builder(&clock).queue(usize::MAX), "a queue of"),
        (
            builder(&clock).policy(no_attempts),
            "use `PoolPolicy::Fail`",
        ),
    ];
    for (builder, message) in bad {
        let error = builder.build().unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
}

#[test]
fn a_bad_resize_changes_nothing() {
    let clock = ManualClock::new();
    let pool = builder(&clock).core(2).max(4).build().unwrap();
    let before = pool.limits();
    let bad = PoolLimits {
        core: 9,
        queue: 1,
        ..before
    };
    assert_eq!(
        pool.resize(bad),
        Err(PoolError::MaxBelowCore { core: 9, max: 4 })
    );
    assert_eq!(pool.limits(), before);
    pool.shutdown(Duration::ZERO).wait().unwrap();
    assert_eq!(pool.resize(before), Err(PoolError::Shutdown));
}

#[test]
fn a_pool_of_the_largest_size_costs_nothing_until_used() {
    let pool = WorkerPool::builder("large")
        .core(0)
        .max(PoolLimits::MAX_THREADS);
    let pool = pool.build().unwrap();
    assert_eq!(pool.submit(|| 7).unwrap().wait().unwrap(), 7);
    assert_eq!(pool.metrics().threads, 1);
}
