//! The counters in the snapshot of a pool.

use std::time::Duration;

use tidegate_testkit::Gate;

use super::kit::{alone, still};
use crate::support::{builder, hold, pool, pool_of};

#[test]
fn the_peak_of_a_pool_is_of_all_its_commands() {
    let (clock, isolation) = still();
    let [a, b] = ["a", "b"].map(|key| {
        let command = builder(key).pool("one").threads(pool_of(3, 0));
        let command = command.no_timeout();
        command.build(&isolation).unwrap()
    });
    let go_on = Gate::new();
    let held = [hold(&a, &go_on), hold(&b, &go_on)];
    assert_eq!((a.snapshot().peak, b.snapshot().peak), (1, 1));
    assert_eq!(pool(&isolation).peak, 2);
    go_on.open();
    for answer in held {
        answer.wait().unwrap();
    }
    assert_eq!(pool(&isolation).peak, 2, "for as long as the window is");
    clock.jump(Duration::from_secs(11));
    assert_eq!(pool(&isolation).peak, 0);
}

#[test]
fn waiting_running_and_total_are_three_figures() {
    let (clock, _isolation, command) = alone(|c| c.threads(pool_of(1, 1)).no_timeout());
    let go_on = Gate::new();
    let held = hold(&command, &go_on);
    let turn = clock.clone();
    let queued = command.queue(move |_| {
        turn.jump(Duration::from_millis(10));
        Ok(1)
    });
    clock.jump(Duration::from_millis(30));
    go_on.open();
    held.wait().unwrap();
    queued.wait().unwrap();
    let latencies = command.snapshot().latencies;
    let near = |notified: Duration, ms: f64| (notified.as_secs_f64() * 1e3 - ms).abs() <= ms * 0.03;
    assert!(
        near(latencies.wait.max(), 30.0),
        "{:?}",
        latencies.wait.max()
    );
    assert!(
        near(latencies.total.max(), 40.0),
        "{:?}",
        latencies.total.max()
    );
    assert!(
        near(latencies.run.percentile(50.0), 10.0),
        "{:?}",
        latencies.run.percentile(50.0)
    );
}
