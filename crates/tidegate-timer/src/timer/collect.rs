//! The metrics of a timer, described for an exporter.

use tidegate_core::{Collect, Metric, MetricVisitor};

use super::wheel_timer::WheelTimer;

/// The metrics of the timer. The label `timer` is its name.
impl Collect for WheelTimer {
    fn collect(&self, visitor: &mut dyn MetricVisitor) {
        let metrics = self.metrics();
        let labels = [("timer", self.name())];
        for (name, help, value) in [
            (
                "tidegate_timer_fired",
                "Timeouts that expired.",
                metrics.fired,
            ),
            (
                "tidegate_timer_cancelled",
                "Timeouts that were cancelled before they expired.",
                metrics.cancelled,
            ),
            (
                "tidegate_timer_refused",
                "Timeouts refused because too many were pending.",
                metrics.refused,
            ),
            (
                "tidegate_timer_panics",
                "Tasks and hooks that panicked.",
                metrics.panicked,
            ),
            (
                "tidegate_timer_tasks_moved",
                "Tasks that ran on the timer's thread because their executor refused them.",
                metrics.fell_back,
            ),
            (
                "tidegate_timer_wakeups",
                "Times that the timer's thread woke up.",
                metrics.wakeups,
            ),
        ] {
            visitor.counter(Metric::new(name, help), &labels, value as f64);
        }
        for (name, help, value) in [
            (
                "tidegate_timer_pending",
                "Timeouts that have neither expired nor been cancelled.",
                metrics.pending,
            ),
            (
                "tidegate_timer_entries",
                "Entries in the wheel, cancelled ones included until the next turn.",
                metrics.in_wheel,
            ),
        ] {
            visitor.gauge(Metric::new(name, help), &labels, value as f64);
        }
        let help = "Longest run of a task on the timer's thread.";
        let longest = Metric::new("tidegate_timer_task_max", help).seconds();
        visitor.gauge(longest, &labels, metrics.longest_task.as_secs_f64());
    }
}
