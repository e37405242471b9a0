//! How a loop ends.
//!
//! | file | what |
//! |---|---|
//! | `plan.rs` | what was asked: quiet period and deadline |
//! | `hooks.rs` | shutdown hooks |
//! | `report.rs` | what a loop did on its way out |
//! | `termination.rs` | the end as others see it: a completion, and tasks that were handed back |
//! | `progress.rs` | how far a loop has come with its end |
//! | `deadline.rs` | what happens at the shutdown timeout to a loop that is stuck |
//! | `request.rs` | asking for the end, and waiting for it |
//! | `steps.rs` | what the loop itself does: quiet period, hooks, close, what is left |
//!
//! The first five own their data and know no loop; `state/shared.rs` and the core are made of them.
//! The last three stand above the shared state. How an end begins, with or without a thread, is in
//! `state/transitions.rs`.

pub(crate) mod deadline;
pub(crate) mod hooks;
pub(crate) mod plan;
pub(crate) mod progress;
pub(crate) mod report;
pub(crate) mod request;
pub(crate) mod steps;
pub(crate) mod termination;
