//! Execution strategies: who consumes what was produced.
//!
//! A [`Producer`] makes tasks one at a time. A [`Strategy`] decides, for each of them, which
//! thread runs it and which thread produces next.
//!
//! | strategy | a task that never blocks | one that may block | for |
//! |---|---|---|---|
//! | [`ProduceConsume`] | here | here | a loop on a thread of its own |
//! | [`ProduceExecuteConsume`] | here | on the executor | a dispatcher before a pool |
//! | [`ExecuteProduceConsume`] | here | here, a helper produces on | hot caches, threads in plenty |
//! | [`EatWhatYouKill`] | here | as the line above, or the one before it when threads are few | the rule of 2015 |
//! | [`Adaptive`] | here | by its kind, the thread's tag, and whether a thread can be had now | everything else |
//!
//! The right to produce is ownership of the boxed producer in one `ProducerCell` of `raw`: two
//! producers at once do not compile, and what one of them wrote is seen by the next. A panic in the producer or in a task, a refusal by the
//! executor, a stop in the middle: the strategy goes on, and nothing is lost.
//!
//! From top to bottom, each knows only what is below it:
//!
//! * One file for each strategy, a folder for `adaptive`: a handle and a rule. `eat_what_you_kill` also
//!   knows `execute_produce_consume`, and `adaptive` alone knows `monitor` and the pool's leases.
//! * `engine`: what all strategies share: the round, the ways to deal with a task, and what happens
//!   when something breaks. `monitor`: the thread that watches over lent producers, and its stand-ins.
//! * `handle`: [`Strategy`], and the macro that implements it. `producer`: [`Producer`]. `counts`:
//!   [`Counts`].
//! * `raw`: the words of the protocol, with all unsafe code of the strategies.
//!
//! Late hand-over, the way of [`Adaptive`] with a [`Monitor`], is described in the `README.md`
//! beside this file.

mod adaptive;
mod counts;
mod eat_what_you_kill;
mod engine;
mod execute_produce_consume;
mod handle;
mod monitor;
mod produce_consume;
mod produce_execute_consume;
mod producer;
pub(crate) mod raw;

#[doc(hidden)]
pub use self::adaptive::Interrupt;
pub use self::adaptive::{Adaptive, AdaptiveBuilder};
pub use self::counts::Counts;
pub use self::eat_what_you_kill::{DEFAULT_LOW_THREADS, EatWhatYouKill};
pub use self::engine::Options;
pub use self::execute_produce_consume::ExecuteProduceConsume;
pub use self::handle::Strategy;
pub use self::monitor::{
    DEFAULT_MONITOR_INTERVAL, DEFAULT_MONITOR_QUIET, DEFAULT_STAND_INS, Monitor, MonitorBuilder,
};
pub use self::produce_consume::ProduceConsume;
pub use self::produce_execute_consume::ProduceExecuteConsume;
pub use self::producer::Producer;
