//! Adaptive: chooses for each task, by its kind, its thread and the threads that can be had.
//!
//! | task | thread free | thread tagged as non-blocking |
//! |---|---|---|
//! | never blocks | PC | PC |
//! | adapts | a thread to be had: EPC; none: PIC | PC |
//! | may block | a thread to be had: EPC; none: PEC | PEC |
//!
//! "To be had" means that a helper is on its way, or that `try_execute` gives one now. This is
//! what Jetty's EatWhatYouKill became. The last thread able to produce therefore runs nothing
//! that could hold it.
//!
//! With a [`Monitor`](crate::Monitor) it hands over late: for a task that may block or adapts, it
//! lends the producer to the cell, asks for nobody, and runs the task. It does so only with a
//! stand-in in reserve, a thread that takes the producer over if nobody else can; without one it goes
//! by the table. See `README.md` in the folder above.
//!
//! From top to bottom, each knows only what is below it:
//!
//! * `handle`: [`Adaptive`] and [`AdaptiveBuilder`].
//! * `rule`: the choice by the table above, as a rule of the engine.
//! * `hand_over`: eager and late hand-over around a task that may block.
//! * `watched`: what the monitor does for a strategy that has lent its producer.
//! * `stand_in`: what a stand-in does when it takes a producer over, and when it gives it back.
//! * `choice`: what the rule goes by. `learned`: which classes of tasks were slow.
//!
//! `stand_in` and `watched` produce through the engine, which calls the rule.

mod choice;
mod hand_over;
mod handle;
mod learned;
mod rule;
mod stand_in;
mod watched;

#[doc(hidden)]
pub use self::choice::Interrupt;
pub use self::handle::{Adaptive, AdaptiveBuilder};
