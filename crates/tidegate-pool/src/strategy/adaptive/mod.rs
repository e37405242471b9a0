//! The adaptive strategy: decides for each task by its kind, its thread and the free threads.
//!
//! | task | thread free | thread tagged as non-blocking |
//! |---|---|---|
//! | never blocks | PC | PC |
//! | adapts | a thread is available: EPC; none: PIC | PC |
//! | may block | a thread is available: EPC; none: PEC | PEC |
//!
//! "Available" means that a thread already has a pending helper, or that `try_execute` provides a
//! thread now. So the last thread that can produce never runs a task that could block it. Jetty's
//! EatWhatYouKill became this rule.
//!
//! With a [`Monitor`](crate::strategy::Monitor) the strategy hands over late: for a task that may
//! block or adapts, it lends the producer to the cell, requests no helper, and runs the task. It
//! does so only if a stand-in is reserved: a thread that takes the producer over if no other thread
//! can. Without a stand-in it follows the table. See `README.md` in the parent folder.
//!
//! From top to bottom; each file uses only files below it:
//!
//! * `handle`: [`Adaptive`] and [`AdaptiveBuilder`].
//! * `rule`: the decision by the table above, as a rule of the engine.
//! * `hand_over`: eager and late hand-over around a task that may block.
//! * `watched`: what the monitor does for a strategy that has lent its producer.
//! * `stand_in`: what a stand-in does when it takes a producer over and when it gives it back.
//! * `choice`: the data for the decision. `learned`: which classes of tasks were slow.
//!
//! `stand_in` and `watched` produce through the engine, which calls the rule.

mod choice;
mod hand_over;
mod handle;
mod learned;
mod rule;
mod stand_in;
mod watched;

pub use self::handle::{Adaptive, AdaptiveBuilder};
