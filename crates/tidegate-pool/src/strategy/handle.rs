//! The trait of all strategies, and the macro that implements it for a handle of an engine.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use tidegate_core::executor::Need;
use tidegate_core::{Dump, Rejected};

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
///
/// # A strategy of your own
///
/// A strategy gets a [`Producer`](crate::strategy::Producer) by value, which is the right to
/// produce, and an executor, usually a pool. Its contract:
///
/// * After a call of `produce` or `dispatch`, the producer is asked at least once more, by one
///   thread at a time, until it returns `None`. Both can be called at any time and on any thread,
///   also from inside a task and inside the producer, so they must not wait for the thread that
///   produces.
/// * Each task is run or given to an executor. A task that the executor refuses goes back with
///   [`Producer::refused`](crate::strategy::Producer::refused).
/// * A task may panic. If the panic ends the call of `produce`, the next call must work.
/// * The strategy keeps its producer until `shutdown`.
///
/// An event loop that is driven by a strategy which breaks this contract does not fail silently:
///
/// | the strategy | what happens |
/// |---|---|
/// | panics in `dispatch` | the panic is reported as [`Unhandled::HookPanic`]; the submission is refused |
/// | drops a task | reported as [`Unhandled::Strategy`]; the completion of the task fails. The event of a connection is offered again |
/// | drops its producer, also by a panic | the loop ends with [`ShutdownError::BadStrategy`], and its tasks are handed back |
/// | stops asking the producer | a watchdog reports the loop. Its shutdown ends at the deadline with [`ShutdownError::BadStrategy`], and its tasks are handed back; if the strategy asks later, it finds that the loop has ended |
///
/// Tasks that are handed back can be taken from the error or from the loop, and run elsewhere; the
/// completions of the others fail. A strategy that stops in the middle of a turn, after it took a task
/// and before it asked again, still has the loop: then waiters and listeners are told at the deadline
/// that their tasks did not start, and there is nothing to take before the strategy asks or drops its
/// producer.
///
/// The other event loops of the group continue.
///
/// This strategy runs tasks on the producing thread, except those that are declared long:
///
/// ```
/// use std::panic::{AssertUnwindSafe, catch_unwind};
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use std::sync::{Arc, Mutex};
/// use tidegate_core::{Executor, Rejected, Task};
/// use tidegate_pool::WorkerPool;
/// use tidegate_pool::strategy::{Producer, Strategy};
///
/// struct LongToPool<P> {
///     /// The lock is held by the thread that produces.
///     producer: Mutex<Option<P>>,
///     /// Another round was requested.
///     wanted: AtomicBool,
///     busy: AtomicBool,
///     closed: AtomicBool,
///     over: AtomicBool,
///     pool: Arc<dyn Executor>,
/// }
///
/// struct Handle<P>(Arc<LongToPool<P>>);
///
/// impl<P: Producer> LongToPool<P> {
///     fn consume(&self, producer: &mut P, task: Task) {
///         if !task.is_long() {
///             let _ = catch_unwind(AssertUnwindSafe(|| task.run()));
///         } else if let Err(refused) = self.pool.execute(task) {
///             producer.refused(refused);
///         }
///     }
///
///     fn is_closed(&self) -> bool {
///         self.closed.load(Ordering::SeqCst)
///     }
/// }
///
/// impl<P: Producer> Strategy for Handle<P> {
///     fn produce(&self) {
///         let this = &*self.0;
///         this.wanted.store(true, Ordering::SeqCst);
///         while this.wanted.load(Ordering::SeqCst) {
///             // If another thread has the lock, it sees `wanted` after its round.
///             let Ok(mut held) = this.producer.try_lock() else { return };
///             this.wanted.store(false, Ordering::SeqCst);
///             this.busy.store(true, Ordering::SeqCst);
///             while !this.is_closed()
///                 && let Some(producer) = held.as_mut()
///                 && let Some(task) = producer.produce()
///             {
///                 this.consume(producer, task);
///             }
///             if this.is_closed() {
///                 *held = None;
///                 this.over.store(true, Ordering::SeqCst);
///             }
///             this.busy.store(false, Ordering::SeqCst);
///         }
///     }
///
///     fn dispatch(&self) -> Result<(), Rejected<()>> {
///         let again = Self(Arc::clone(&self.0));
///         let task = Task::new(move || again.produce());
///         self.0.pool.execute_internal(task).map_err(|refused| refused.map(drop))
///     }
///
///     fn shutdown(&self) -> bool {
///         let first = !self.0.closed.swap(true, Ordering::SeqCst);
///         self.produce(); // drops the producer, unless another thread has it
///         first
///     }
///
///     fn is_idle(&self) -> bool {
///         !self.0.wanted.load(Ordering::SeqCst) && !self.0.busy.load(Ordering::SeqCst)
///     }
///
///     fn is_shutdown(&self) -> bool {
///         self.0.over.load(Ordering::SeqCst)
///     }
///
///     fn name(&self) -> &'static str {
///         "LongToPool"
///     }
/// }
///
/// let pool = Arc::new(WorkerPool::builder("workers").build()?);
/// let (say, said) = std::sync::mpsc::channel();
/// let mut tasks = vec![Task::new(|| ()), Task::long(move || say.send(7).unwrap())];
/// let strategy = Handle(Arc::new(LongToPool {
///     producer: Mutex::new(Some(move || tasks.pop())),
///     wanted: AtomicBool::default(),
///     busy: AtomicBool::default(),
///     closed: AtomicBool::default(),
///     over: AtomicBool::default(),
///     pool,
/// }));
/// strategy.produce();
/// assert_eq!(said.recv()?, 7);
/// assert!(strategy.shutdown() && strategy.is_shutdown());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`Unhandled::HookPanic`]: tidegate_core::Unhandled::HookPanic
/// [`Unhandled::Strategy`]: tidegate_core::Unhandled::Strategy
/// [`ShutdownError::BadStrategy`]: crate::ShutdownError::BadStrategy
pub trait Strategy: Send + Sync + 'static {
    /// Produces and consumes on this thread until the producer has no task, or until another thread
    /// takes over the right to produce. If another thread already has that right, this call returns
    /// at once, and that thread calls its producer at least once more.
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

    /// Returns a snapshot of the counters of its decisions. The default returns zeros.
    fn metrics(&self) -> StrategyMetrics {
        StrategyMetrics::default()
    }

    /// Resets the counters to zero. The default does nothing.
    fn reset_metrics(&self) {}

    /// Returns the strategy's name for tables and errors. The default is the name of its type.
    fn name(&self) -> &'static str {
        std::any::type_name::<Self>()
    }

    /// Returns the state of the strategy as a tree. The dump of a roaming loop calls this, so an
    /// implementation of your own must not wait. The default shows the state and the counters.
    fn dump(&self) -> Dump {
        dump_of(self)
    }

    /// Returns `true` if the calling thread runs a task of this strategy, and nothing is produced
    /// until that task ends.
    #[doc(hidden)]
    fn holds_production(&self) -> bool {
        false
    }

    /// Returns what the work of the producer needs of other executors before it can run.
    /// `submitted` is `true` for a task that may block. `drivers` counts the threads that have the
    /// producer now. The default is nothing.
    #[doc(hidden)]
    fn needs(&self, submitted: bool, drivers: &Arc<AtomicUsize>) -> Vec<Need> {
        let _ = (submitted, drivers);
        Vec::new()
    }
}

/// A strategy that was chosen at run time.
impl<S: Strategy + ?Sized> Strategy for Arc<S> {
    fn produce(&self) {
        S::produce(self);
    }

    fn dispatch(&self) -> Result<(), Rejected<()>> {
        S::dispatch(self)
    }

    fn shutdown(&self) -> bool {
        S::shutdown(self)
    }

    fn is_idle(&self) -> bool {
        S::is_idle(self)
    }

    fn is_shutdown(&self) -> bool {
        S::is_shutdown(self)
    }

    fn metrics(&self) -> StrategyMetrics {
        S::metrics(self)
    }

    fn reset_metrics(&self) {
        S::reset_metrics(self);
    }

    fn name(&self) -> &'static str {
        S::name(self)
    }

    fn holds_production(&self) -> bool {
        S::holds_production(self)
    }

    fn needs(&self, submitted: bool, drivers: &Arc<AtomicUsize>) -> Vec<Need> {
        S::needs(self, submitted, drivers)
    }

    fn dump(&self) -> Dump {
        S::dump(self)
    }
}

/// Returns what every strategy shows in a dump.
pub(super) fn dump_of<S: Strategy + ?Sized>(strategy: &S) -> Dump {
    let state = match (strategy.is_shutdown(), strategy.is_idle()) {
        (true, _) => "shut down",
        (false, true) => "idle",
        (false, false) => "producing",
    };
    let metrics = strategy.metrics();
    let dump = Dump::new("strategy", strategy.name())
        .fact("state", state)
        .fact("low_on_threads", metrics.low_on_threads)
        .fact("tasks", metrics.tasks());
    metrics
        .figures()
        .fold(dump, |dump, (key, _, count)| dump.fact(key, count))
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

            fn holds_production(&self) -> bool {
                self.engine.holds_production()
            }

            fn needs(
                &self,
                submitted: bool,
                drivers: &std::sync::Arc<std::sync::atomic::AtomicUsize>,
            ) -> Vec<tidegate_core::executor::Need> {
                self.engine.needs(submitted, drivers)
            }

            fn dump(&self) -> tidegate_core::Dump {
                self.engine.describe(crate::strategy::handle::dump_of(self))
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
