//! The metrics of an event loop, described for an exporter.

use tidegate_core::{Collect, Metric, MetricVisitor, describe_metrics};
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
        describe_metrics! {
            visitor, &labels, gauge "tidegate_loop_":
            stalled "1 if a watchdog considers the loop stuck, else 0." = u8::from(self.is_stalled());
            unhealthy "1 if the driver of the loop keeps failing, else 0." = u8::from(self.is_unhealthy());
        }
        if let Some(strategy) = self.shared.thread.strategy() {
            strategy_metrics(&strategy.metrics(), self.name(), visitor);
        }
    }
}

fn counters(metrics: &LoopMetrics, labels: &[(&str, &str)], visitor: &mut dyn MetricVisitor) {
    describe_metrics! {
        visitor, labels, counter "tidegate_loop_":
        tasks "Tasks started, timers and first polls of futures included." = metrics.tasks_run;
        tasks_refused "Tasks refused because the queue was full or closed." = metrics.refused;
        task_panics "Tasks that panicked." = metrics.panics;
        listener_panics "Listeners that panicked." = metrics.listener_panics;
        listeners_moved "Notifications that ran on another thread because the loop had terminated." = metrics.fell_back;
        timers_run "Scheduled runs." = metrics.timers_run;
        turns "Turns of the loop." = metrics.turns;
        sleeps "Times that the loop went to sleep." = metrics.sleeps;
        wakeups "Wake-ups sent by other threads." = metrics.wakeups;
    }
    describe_metrics! {
        visitor, labels, counter seconds "tidegate_loop_":
        busy "Time in which the loop was awake." = metrics.busy;
        timer_lateness "Sum of the times by which scheduled runs were late." = metrics.lateness_total;
    }
}

fn gauges(metrics: &LoopMetrics, labels: &[(&str, &str)], visitor: &mut dyn MetricVisitor) {
    describe_metrics! {
        visitor, labels, gauge "tidegate_loop_":
        tasks_pending "Tasks that were accepted and have not started." = metrics.tasks_pending;
        tasks_pending_max "Highest sampled number of waiting tasks." = metrics.high_water;
        timers_pending "Scheduled tasks that wait for their deadline." = metrics.timers_pending;
        futures "Spawned futures that have not ended." = metrics.futures;
    }
    describe_metrics! {
        visitor, labels, gauge seconds "tidegate_loop_":
        timer_lateness_max "Longest time by which a scheduled run was late." = metrics.lateness_max;
        heartbeat_age "Time since the current or last turn began; it also grows while the loop sleeps." = metrics.heartbeat_age;
        run_max "Longest measured run of tasks." = metrics.longest;
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
    describe_metrics! {
        visitor, &[("loop", name)], counter "tidegate_strategy_":
        late_handovers "Lent tasks whose producer another thread took over." = metrics.late_epc;
        stand_ins "Late hand-overs to a stand-in thread of the monitor." = metrics.stand_ins;
        helpers "Helpers that the strategy requested." = metrics.helpers;
        refused "Tasks that the executor refused." = metrics.refused;
        panics "Tasks that panicked on the thread that produced them." = metrics.task_panics;
    }
}
