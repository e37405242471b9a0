//! The metrics of an event loop, described for an exporter.

use tidegate_core::{Collect, Metric, MetricVisitor};
use tidegate_pool::strategy::StrategyMetrics;

use super::event_loop::EventLoop;
use super::placement::Placement;
use crate::state::metrics::LoopMetrics;

/// The metrics of the loop, and of the strategy that drives it if it roams. The label `loop` is the
/// name of the loop.
///
/// The metrics of a strategy come from [`Strategy::metrics`](tidegate_pool::strategy::Strategy),
/// which a program may implement.
impl<P: Placement> Collect for EventLoop<P> {
    fn collect(&self, visitor: &mut dyn MetricVisitor) {
        let metrics = self.metrics();
        let labels = [("loop", self.name())];
        counters(&metrics, &labels, visitor);
        gauges(&metrics, &labels, visitor);
        let stalled = f64::from(u8::from(self.is_stalled()));
        let help = "1 if a watchdog considers the loop stuck, else 0.";
        visitor.gauge(Metric::new("tidegate_loop_stalled", help), &labels, stalled);
        let unhealthy = f64::from(u8::from(self.is_unhealthy()));
        let help = "1 if the driver of the loop keeps failing, else 0.";
        visitor.gauge(
            Metric::new("tidegate_loop_unhealthy", help),
            &labels,
            unhealthy,
        );
        if let Some(strategy) = self.shared.thread.strategy() {
            strategy_metrics(&strategy.metrics(), self.name(), visitor);
        }
    }
}

fn counters(metrics: &LoopMetrics, labels: &[(&str, &str)], visitor: &mut dyn MetricVisitor) {
    for (name, help, value) in [
        (
            "tidegate_loop_tasks",
            "Tasks started, timers and first polls of futures included.",
            metrics.tasks_run,
        ),
        (
            "tidegate_loop_tasks_refused",
            "Tasks refused because the queue was full or closed.",
            metrics.refused,
        ),
        (
            "tidegate_loop_task_panics",
            "Tasks that panicked.",
            metrics.panics,
        ),
        (
            "tidegate_loop_listener_panics",
            "Listeners that panicked.",
            metrics.listener_panics,
        ),
        (
            "tidegate_loop_listeners_moved",
            "Notifications that ran on another thread because the loop had terminated.",
            metrics.fell_back,
        ),
        (
            "tidegate_loop_timers_run",
            "Scheduled runs.",
            metrics.timers_run,
        ),
        ("tidegate_loop_turns", "Turns of the loop.", metrics.turns),
        (
            "tidegate_loop_sleeps",
            "Times that the loop went to sleep.",
            metrics.sleeps,
        ),
        (
            "tidegate_loop_wakeups",
            "Wake-ups sent by other threads.",
            metrics.wakeups,
        ),
    ] {
        visitor.counter(Metric::new(name, help), labels, value as f64);
    }
    let busy = Metric::new("tidegate_loop_busy", "Time in which the loop was awake.").seconds();
    visitor.counter(busy, labels, metrics.busy.as_secs_f64());
    let help = "Sum of the times by which scheduled runs were late.";
    let lateness = Metric::new("tidegate_loop_timer_lateness", help).seconds();
    visitor.counter(lateness, labels, metrics.lateness_total.as_secs_f64());
}

fn gauges(metrics: &LoopMetrics, labels: &[(&str, &str)], visitor: &mut dyn MetricVisitor) {
    for (name, help, value) in [
        (
            "tidegate_loop_tasks_pending",
            "Tasks that were accepted and have not started.",
            metrics.tasks_pending as u64,
        ),
        (
            "tidegate_loop_tasks_pending_max",
            "Highest sampled number of waiting tasks.",
            metrics.high_water,
        ),
        (
            "tidegate_loop_timers_pending",
            "Scheduled tasks that wait for their deadline.",
            metrics.timers_pending,
        ),
        (
            "tidegate_loop_futures",
            "Spawned futures that have not ended.",
            metrics.futures,
        ),
    ] {
        visitor.gauge(Metric::new(name, help), labels, value as f64);
    }
    for (name, help, value) in [
        (
            "tidegate_loop_timer_lateness_max",
            "Longest time by which a scheduled run was late.",
            metrics.lateness_max,
        ),
        (
            "tidegate_loop_heartbeat_age",
            "Time since the current or last turn began; it also grows while the loop sleeps.",
            metrics.heartbeat_age,
        ),
        (
            "tidegate_loop_run_max",
            "Longest measured run of tasks.",
            metrics.longest,
        ),
    ] {
        let metric = Metric::new(name, help).seconds();
        visitor.gauge(metric, labels, value.as_secs_f64());
    }
}

fn strategy_metrics(metrics: &StrategyMetrics, name: &str, visitor: &mut dyn MetricVisitor) {
    let tasks = Metric::new(
        "tidegate_strategy_tasks",
        "Tasks by the way in which the strategy ran them.",
    );
    for (way, count) in [
        ("produce_consume", metrics.pc),
        ("produce_invoke_consume", metrics.pic),
        ("produce_execute_consume", metrics.pec),
        ("execute_produce_consume", metrics.epc),
        ("lent", metrics.lent),
    ] {
        visitor.counter(tasks, &[("loop", name), ("way", way)], count as f64);
    }
    let labels = [("loop", name)];
    for (name, help, count) in [
        (
            "tidegate_strategy_late_handovers",
            "Lent tasks whose producer another thread took over.",
            metrics.late_epc,
        ),
        (
            "tidegate_strategy_stand_ins",
            "Late hand-overs to a stand-in thread of the monitor.",
            metrics.stand_ins,
        ),
        (
            "tidegate_strategy_helpers",
            "Helpers that the strategy requested.",
            metrics.helpers,
        ),
        (
            "tidegate_strategy_refused",
            "Tasks that the executor refused.",
            metrics.refused,
        ),
        (
            "tidegate_strategy_panics",
            "Tasks that panicked on the thread that produced them.",
            metrics.task_panics,
        ),
    ] {
        visitor.counter(Metric::new(name, help), &labels, count as f64);
    }
}
