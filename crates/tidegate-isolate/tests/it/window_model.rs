//! Random calls at random times: the windows agree with a list of all calls.

use std::time::Duration;

use tidegate_isolate::{BreakerMode, Event, MetricsConfig, WindowConfig};
use tidegate_testkit::model;

use crate::support::alone;

#[test]
fn counts_and_latencies_are_what_a_list_of_all_calls_says() {
    model(0..60, |rng| {
        let buckets = 1 + rng.below(8) as u32;
        let bucket = Duration::from_millis(1 + rng.below(20));
        let window = WindowConfig::new(bucket * buckets, buckets);
        let metrics = MetricsConfig {
            counts: window,
            latencies: window,
            record_latencies: true,
        };
        let (clock, _isolation, command) = alone(|c| {
            c.metrics(metrics)
                .no_timeout()
                .configure(|c| c.breaker.mode = BreakerMode::Disabled)
        });
        let mut calls: Vec<(u64, bool)> = Vec::new();
        for _ in 0..150 {
            let pause = if rng.chance(0.1) {
                bucket * 2 * buckets
            } else {
                bucket
            };
            clock.jump(Duration::from_nanos(rng.below(pause.as_nanos() as u64)));
            if rng.chance(0.7) {
                let good = rng.chance(0.5);
                let _ = command.run(move |_| if good { Ok(1) } else { Err("no") });
                calls.push((clock.nanos(), good));
            } else {
                check(&command, &calls, window, clock.nanos());
            }
        }
        check(&command, &calls, window, clock.nanos());
    });
}

fn check(command: &crate::support::Numbers, calls: &[(u64, bool)], window: WindowConfig, now: u64) {
    let bucket = (window.length / window.buckets).as_nanos() as u64;
    let (current, buckets) = (now / bucket, u64::from(window.buckets));
    let count = |good: bool, first: u64, end: u64| {
        let inside = |at: u64| (first..end).contains(&(at / bucket));
        calls
            .iter()
            .filter(|(at, was)| *was == good && inside(*at))
            .count() as u64
    };
    let snapshot = command.snapshot();
    let first = (current + 1).saturating_sub(buckets);
    let rolling = [true, false].map(|good| count(good, first, current + 1));
    assert_eq!(
        [Event::Success, Event::Failure].map(|e| snapshot.window[e]),
        rolling
    );
    let closed = [true, false].map(|good| count(good, current.saturating_sub(buckets), current));
    assert_eq!(
        [Event::Success, Event::Failure].map(|e| snapshot.closed[e]),
        closed
    );
    assert_eq!(
        snapshot.latencies.total.count(),
        rolling.iter().sum::<u64>()
    );
    assert_eq!(snapshot.totals.health_total(), calls.len() as u64);
}
