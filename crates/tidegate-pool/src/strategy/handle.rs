//! What every strategy offers: the trait, and the macro that implements it for a handle over an engine.

use tidegate_core::Rejected;

use super::counts::Counts;

/// Decides which thread runs each task of a producer, and which one produces next.
///
/// ```
/// use std::sync::Arc;
/// use tidegate_pool::{ImmediateExecutor, ProduceConsume, ProduceExecuteConsume, Strategy};
///
/// let here = Arc::new(ImmediateExecutor::new());
/// let all: [Box<dyn Strategy>; 2] = [
///     Box::new(ProduceConsume::new(|| None, here.clone())),
///     Box::new(ProduceExecuteConsume::new(|| None, here)),
/// ];
/// for strategy in all {
///     strategy.produce();
///     assert!(strategy.is_idle());
///     assert!(strategy.stop() && !strategy.stop());
///     strategy.produce(); // does nothing
/// }
/// ```
pub trait Strategy: Send + Sync + 'static {
    /// Produces and consumes on this thread until the producer has nothing, or until another
    /// thread has the right to produce. If one has it already, that one asks its producer at
    /// least once more, and this call returns at once.
    ///
    /// From inside a task that this strategy runs, on the thread that drives it, it only asks:
    /// the stack does not grow. A thread of the application that must not run the tasks of
    /// others uses [`Strategy::dispatch`].
    fn produce(&self);

    /// Has another thread produce. Never runs a task on this one (unless the executor itself
    /// does).
    ///
    /// # Errors
    ///
    /// When the strategy is stopped or its executor refuses. Nothing is lost: whoever produces
    /// next finds the work.
    fn dispatch(&self) -> Result<(), Rejected<()>>;

    /// Ends production: the producer is dropped now, or by the thread that has it, before it
    /// would produce again. Tasks that were produced are still consumed. Whether this call was
    /// the one that stopped it.
    fn stop(&self) -> bool;

    /// Whether nobody produces and nothing is asked for.
    fn is_idle(&self) -> bool;

    /// Whether it was stopped and the producer is gone.
    fn is_stopped(&self) -> bool;

    /// What it has chosen so far.
    fn counts(&self) -> Counts;

    /// Begins to count from zero.
    fn reset_counts(&self);

    /// What the strategy is called in tables.
    fn name(&self) -> &'static str;
}

/// The parts that every strategy has: restart, clone, debug and the trait.
macro_rules! strategy_handle {
    ($strategy:ident, $name:expr) => {
        impl<P: crate::strategy::producer::Producer> $strategy<P> {
            /// Goes on with another producer after a stop.
            ///
            /// # Errors
            ///
            /// The producer, when the strategy is not stopped, or when a thread has not given
            /// the last producer up yet ([`Strategy::is_stopped`](crate::Strategy::is_stopped)).
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

            fn stop(&self) -> bool {
                self.engine.stop()
            }

            fn is_idle(&self) -> bool {
                self.engine.cell.is_idle()
            }

            fn is_stopped(&self) -> bool {
                self.engine.cell.is_over()
            }

            fn counts(&self) -> crate::strategy::counts::Counts {
                self.engine.counters.read()
            }

            fn reset_counts(&self) {
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
