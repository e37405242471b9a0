//! The trait of all strategies, and the macro that implements it for a handle of an engine.

use tidegate_core::Rejected;

use super::metrics::StrategyMetrics;

/// Decides which thread runs each task of a producer, and which thread produces next.
///
/// ```
/// use std::sync::Arc;
/// use tidegate_pool::ImmediateExecutor;
/// use tidegate_pool::strategy::{ProduceConsume, ProduceExecuteConsume, Strategy};
///
/// let here = Arc::new(ImmediateExecutor::new());
/// let all: [Box<dyn Strategy>; 2] = [
///     Box::new(ProduceConsume::new(|| None, here.clone())),
///     Box::new(ProduceExecuteConsume::new(|| None, here)),
/// ];
/// for strategy in all {
///     strategy.produce();
///     assert!(strategy.is_idle());
///     assert!(strategy.shutdown() && !strategy.shutdown());
///     strategy.produce(); // does nothing
/// }
/// ```
pub trait Strategy: Send + Sync + 'static {
    /// Produces and consumes on this thread until the producer has no task, or until another thread
    /// takes over the right to produce. If another thread already has that right, this call returns
    /// at once, and that thread asks its producer at least once more.
    ///
    /// If called from inside a task that this strategy runs on the calling thread, it only requests
    /// another round, so the stack does not grow. If no thread produces and no round was requested
    /// before, it also dispatches another thread. An application thread that must not run these
    /// tasks calls [`Strategy::dispatch`] instead.
    fn produce(&self);

    /// Makes another thread produce. Never runs a task on this thread, unless the executor itself
    /// does.
    ///
    /// # Errors
    ///
    /// If the strategy was shut down or its executor refuses. No task is lost: the work stays with
    /// the producer, and the next producing thread finds it. After a refusal the caller should try
    /// again, since a strategy need not do so itself.
    fn dispatch(&self) -> Result<(), Rejected<()>>;

    /// Ends production. The producer is dropped now, or by the thread that holds it before it
    /// would produce again. Tasks that were already produced are still consumed. Returns `true` if
    /// this call ended production, and `false` if an earlier call did.
    fn shutdown(&self) -> bool;

    /// Returns `true` if no thread produces and no round was requested.
    fn is_idle(&self) -> bool;

    /// Returns `true` if the strategy was shut down and the producer was dropped.
    fn is_shutdown(&self) -> bool;

    /// Returns a snapshot of the counters of its decisions.
    fn metrics(&self) -> StrategyMetrics;

    /// Resets the counters to zero.
    fn reset_metrics(&self);

    /// Returns the strategy's name for tables.
    fn name(&self) -> &'static str;
}

/// Implements the methods that every strategy has: `restart`, `Clone`, `Debug` and the trait.
macro_rules! strategy_handle {
    ($strategy:ident, $name:expr) => {
        impl<P: crate::strategy::producer::Producer> $strategy<P> {
            /// Continues with another producer after a shutdown.
            ///
            /// # Errors
            ///
            /// Returns the producer if the strategy was not shut down, or if a thread still holds
            /// the last producer. Succeeds once
            /// [`Strategy::is_shutdown`](crate::strategy::Strategy::is_shutdown) returns `true`.
            pub fn restart(&self, producer: P) -> Result<(), P> {
                self.engine.restart(producer)
            }
        }

        impl<P: crate::strategy::producer::Producer> crate::strategy::handle::Strategy
            for $strategy<P>
        {
            fn produce(&self) {
                self.engine.produce();
            }

            fn dispatch(&self) -> Result<(), tidegate_core::Rejected<()>> {
                self.engine.dispatch()
            }

            fn shutdown(&self) -> bool {
                self.engine.shutdown()
            }

            fn is_idle(&self) -> bool {
                self.engine.cell.is_idle()
            }

            fn is_shutdown(&self) -> bool {
                self.engine.cell.is_over()
            }

            fn metrics(&self) -> crate::strategy::metrics::StrategyMetrics {
                self.engine.counters.read()
            }

            fn reset_metrics(&self) {
                self.engine.counters.reset();
            }

            fn name(&self) -> &'static str {
                $name
            }
        }

        impl<P> Clone for $strategy<P> {
            fn clone(&self) -> Self {
                Self {
                    engine: std::sync::Arc::clone(&self.engine),
                }
            }
        }

        impl<P> std::fmt::Debug for $strategy<P> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct($name)
                    .field("cell", &self.engine.cell)
                    .field("counts", &self.engine.counters.read())
                    .finish()
            }
        }
    };
}
pub(super) use strategy_handle;
