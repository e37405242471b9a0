//! The metrics of a group, described for an exporter.

use tidegate_core::{Collect, Metric, MetricVisitor};

use super::event_loop_group::EventLoopGroup;
use crate::handle::placement::Placement;

/// The metrics of each loop, and the size of the group. The label `group` is the name of the group.
impl<P: Placement> Collect for EventLoopGroup<P> {
    fn collect(&self, visitor: &mut dyn MetricVisitor) {
        let labels = [("group", self.name())];
        let loops = Metric::new("tidegate_group_loops", "Event loops of the group.");
        visitor.gauge(loops, &labels, self.len() as f64);
        let active = Metric::new(
            "tidegate_group_loops_active",
            "Event loops that get new work now.",
        );
        visitor.gauge(active, &labels, self.active_count() as f64);
        for event_loop in self {
            event_loop.collect(visitor);
        }
    }
}
