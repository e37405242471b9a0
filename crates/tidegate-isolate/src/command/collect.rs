//! The metrics of one command, described for an exporter.

use tidegate_core::{Collect, MetricVisitor};

use super::handle::Command;

/// The metrics of the command, its breaker and its limits. To export all commands of an
/// [`Isolation`](crate::Isolation), and their pools, collect the isolation instead.
impl<T, E> Collect for Command<T, E> {
    fn collect(&self, visitor: &mut dyn MetricVisitor) {
        self.shared.state.collect(visitor);
    }
}
