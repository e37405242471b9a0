//! The metrics of commands and their pools, described for an exporter.

use tidegate_core::{Collect, Metric, MetricVisitor};

use super::registry::Isolation;
use super::snapshot::CommandSnapshot;
use super::state::State;
use crate::breaker::BreakerState;
use crate::bulkhead::PoolSnapshot;
use crate::metrics::Cumulative;

/// The states of a breaker, in the order of the arrays of a snapshot.
impl Collect for Isolation {
    fn collect(&self, visitor: &mut dyn MetricVisitor) {
        self.reclaim();
        for state in self.sorted_states() {
            state.collect(visitor);
        }
        for pool in self.pool_snapshots() {
            describe_pool(&pool, visitor);
        }
    }
}

/// The metrics of one key. The labels are `command` and `group`.
impl Collect for State {
    fn collect(&self, visitor: &mut dyn MetricVisitor) {
        let snapshot = CommandSnapshot::of(self);
        let labels = [
            ("command", snapshot.key.as_str()),
            ("group", snapshot.group.as_str()),
        ];
        describe_events(&snapshot, labels, visitor);
        describe_limits(&snapshot, &labels, visitor);
        describe_breaker(&snapshot, labels, visitor);
        if snapshot.config.metrics.record_latencies {
            let all = self.metrics.cumulative(self.now());
            for (name, help, latencies) in [
                (
                    "tidegate_command_wait",
                    "Time from a call to the start of its work.",
                    &all.wait,
                ),
                (
                    "tidegate_command_run",
                    "Time from the start of the work to its end.",
                    &all.run,
                ),
                (
                    "tidegate_command_duration",
                    "Time from a call to its result.",
                    &all.total,
                ),
            ] {
                describe_latencies(latencies, Metric::new(name, help), &labels, visitor);
            }
        }
    }
}

fn describe_events(
    snapshot: &CommandSnapshot,
    [command, group]: [(&str, &str); 2],
    visitor: &mut dyn MetricVisitor,
) {
    let metric = Metric::new(
        "tidegate_command_events",
        "Events of calls, by the names that Hystrix gives them.",
    );
    for (event, count) in snapshot.totals.iter() {
        let labels = [command, group, ("event", event.name())];
        visitor.counter(metric, &labels, count as f64);
    }
    let help = "Calls, batches and hooks refused because too many waited for callback threads.";
    let refused = Metric::new("tidegate_command_callbacks_refused", help);
    visitor.counter(
        refused,
        &[command, group],
        snapshot.callbacks_refused as f64,
    );
}

fn describe_limits(
    snapshot: &CommandSnapshot,
    labels: &[(&str, &str)],
    visitor: &mut dyn MetricVisitor,
) {
    for (name, help, value) in [
        (
            "tidegate_command_active",
            "Calls that are running now.",
            snapshot.active,
        ),
        (
            "tidegate_command_limit",
            "Highest number of calls that may run at the same time.",
            snapshot.limit,
        ),
        (
            "tidegate_command_waiting",
            "Calls that wait for a permit.",
            snapshot.waiting,
        ),
        (
            "tidegate_command_overstaying",
            "Calls that hold their permit although their outcome was reported.",
            snapshot.overstaying,
        ),
        (
            "tidegate_command_fallbacks_active",
            "Fallbacks that are running now.",
            snapshot.fallbacks,
        ),
    ] {
        visitor.gauge(Metric::new(name, help), labels, value as f64);
    }
    let help =
        "How long the oldest overstaying call has held its permit since its end was reported.";
    let oldest = Metric::new("tidegate_command_overstaying_oldest", help).seconds();
    let age = snapshot.oldest_overstaying.unwrap_or_default();
    visitor.gauge(oldest, labels, age.as_secs_f64());
    if let Some(limit) = snapshot.adaptive_limit {
        let help = "Current adaptive limit of calls.";
        let metric = Metric::new("tidegate_command_adaptive_limit", help);
        visitor.gauge(metric, labels, limit as f64);
    }
    let help = "Memory that the key holds only while it is in use.";
    let lent = Metric::new("tidegate_command_lent", help).bytes();
    visitor.gauge(lent, labels, snapshot.lent_bytes as f64);
}

fn describe_breaker(
    snapshot: &CommandSnapshot,
    [command, group]: [(&str, &str); 2],
    visitor: &mut dyn MetricVisitor,
) {
    let help = "1 if the breaker rejects calls, else 0.";
    let open = Metric::new("tidegate_breaker_open", help);
    let is_open = f64::from(u8::from(snapshot.is_open));
    visitor.gauge(open, &[command, group], is_open);
    let help = "1 for the state that the breaker is in, 0 for the others.";
    let current = Metric::new("tidegate_breaker_state", help);
    let help = "Times that the breaker entered the state.";
    let entered = Metric::new("tidegate_breaker_entered", help);
    let help = "Time that the breaker spent in the state.";
    let times = Metric::new("tidegate_breaker_time", help).seconds();
    for (at, state) in BreakerState::ALL.into_iter().enumerate() {
        let labels = [command, group, ("state", state.name())];
        let is_in = f64::from(u8::from(snapshot.breaker == state));
        visitor.gauge(current, &labels, is_in);
        visitor.counter(entered, &labels, snapshot.breaker_entered[at] as f64);
        visitor.counter(times, &labels, snapshot.breaker_times[at].as_secs_f64());
    }
}

fn describe_latencies(
    latencies: &Cumulative,
    metric: Metric,
    labels: &[(&str, &str)],
    visitor: &mut dyn MetricVisitor,
) {
    let sum = latencies.sum().as_secs_f64();
    visitor.histogram(metric.seconds(), labels, &latencies.buckets(), sum);
}

/// Describes a thread bulkhead. The label `pool` is its key.
fn describe_pool(pool: &PoolSnapshot, visitor: &mut dyn MetricVisitor) {
    let labels = [("pool", pool.key.as_str())];
    for (name, help, value) in [
        (
            "tidegate_bulkhead_calls_accepted",
            "Calls that the pool accepted.",
            pool.accepted,
        ),
        (
            "tidegate_bulkhead_calls_completed",
            "Calls whose work has ended.",
            pool.completed,
        ),
        (
            "tidegate_bulkhead_calls_executed",
            "Calls that ran.",
            pool.executed_total,
        ),
        (
            "tidegate_bulkhead_calls_rejected",
            "Calls that the pool rejected.",
            pool.rejected_total,
        ),
        (
            "tidegate_bulkhead_calls_expired",
            "Calls that timed out while they waited for a thread.",
            pool.expired_total,
        ),
    ] {
        visitor.counter(Metric::new(name, help), &labels, value as f64);
    }
    for (name, help, value) in [
        (
            "tidegate_bulkhead_threads",
            "Threads of the pool.",
            pool.threads,
        ),
        (
            "tidegate_bulkhead_threads_active",
            "Threads that are running a call.",
            pool.active,
        ),
        (
            "tidegate_bulkhead_threads_overstaying",
            "Threads held by work whose caller has given up.",
            pool.overstaying,
        ),
        (
            "tidegate_bulkhead_threads_limit",
            "Highest number of threads allowed.",
            pool.max,
        ),
        (
            "tidegate_bulkhead_queued",
            "Calls that wait for a thread.",
            pool.queued,
        ),
    ] {
        visitor.gauge(Metric::new(name, help), &labels, value as f64);
    }
}
