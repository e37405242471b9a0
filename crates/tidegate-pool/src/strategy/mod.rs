//! Execution strategies: they decide which thread consumes a produced task.
//!
//! A [`Producer`] creates tasks one at a time. For each task, a [`Strategy`] decides which thread
//! runs it and which thread produces next. In the table, "here" is the thread that produced the
//! task.
//!
//! | strategy | a task that never blocks | a task that may block | use |
//! |---|---|---|---|
//! | [`ProduceConsume`] | here | here | a loop on its own thread |
//! | [`ProduceExecuteConsume`] | here | on the executor | a dispatcher before a pool |
//! | [`ExecuteProduceConsume`] | here | here, while a helper produces | hot caches, many threads |
//! | [`EatWhatYouKill`] | here | as above; on the executor if threads are few | the rule of 2015 |
//! | [`Adaptive`] | here | by the task's kind, the thread's tag, the free threads | all else |
//!
//! The right to produce is the ownership of the boxed producer in a `ProducerCell` of `raw`. So
//! code in which two threads produce at once does not compile, and each producing thread sees what
//! the previous one wrote. A panic in the producer or in a task, a refusal by the executor, or a
//! shutdown at any point does not break the strategy, and no task is lost.
//!
//! From top to bottom; each file uses only files below it:
//!
//! * One file for each strategy, and a folder for `adaptive`: a handle and a rule.
//!   `eat_what_you_kill` also uses `execute_produce_consume`. Only `adaptive` uses `monitor` and
//!   the pool's leases.
//! * `engine`: code that all strategies share: the loop that produces and consumes, the ways to run
//!   a task, and the handling of panics and refusals. `monitor`: the thread that watches lent
//!   producers, and its stand-in threads.
//! * `handle`: [`Strategy`], and the macro that implements it. `producer`: [`Producer`]. `metrics`:
//!   [`StrategyMetrics`].
//! * `raw`: the atomic words of the protocol, with all unsafe code of the strategies.
//!
//! The `README.md` beside this file describes late hand-over, which [`Adaptive`] uses with a
//! [`Monitor`].

#[cfg(feature = "strategy")]
mod adaptive;
#[cfg(feature = "strategy")]
mod eat_what_you_kill;
#[cfg(feature = "strategy")]
mod engine;
#[cfg(feature = "strategy")]
mod execute_produce_consume;
mod handle;
mod metrics;
#[cfg(feature = "strategy")]
mod monitor;
#[cfg(feature = "strategy")]
mod produce_consume;
#[cfg(feature = "strategy")]
mod produce_execute_consume;
pub(crate) mod producer;
#[cfg(feature = "strategy")]
pub(crate) mod raw;

#[cfg(feature = "strategy")]
pub use self::adaptive::{Adaptive, AdaptiveBuilder};
#[cfg(feature = "strategy")]
pub use self::eat_what_you_kill::EatWhatYouKill;
#[cfg(feature = "strategy")]
pub use self::execute_produce_consume::ExecuteProduceConsume;
pub use self::handle::Strategy;
pub use self::metrics::StrategyMetrics;
#[cfg(feature = "strategy")]
pub use self::monitor::{Monitor, MonitorBuilder};
#[cfg(feature = "strategy")]
pub use self::produce_consume::ProduceConsume;
#[cfg(feature = "strategy")]
pub use self::produce_execute_consume::ProduceExecuteConsume;
pub use self::producer::Producer;
