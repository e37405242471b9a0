//! How an event loop shuts down.
//!
//! | file | what |
//! |---|---|
//! | `end_watch.rs` | the thread that watches shutdowns |
//! | `plan.rs` | the request: quiet period and deadline |
//! | `hooks.rs` | shutdown hooks |
//! | `report.rs` | the report of a shutdown |
//! | `termination.rs` | the public view of the end: a completion, and the handed-back tasks |
//! | `progress.rs` | how far the shutdown has come |
//! | `deadline.rs` | what happens to a stuck event loop at the shutdown timeout |
//! | `request.rs` | requesting a shutdown, and waiting for it |
//! | `steps.rs` | the steps of the event loop itself: quiet period, hooks, close, leftovers |
//!
//! The first six own their data and do not use the event loop; `state/shared.rs` and the core
//! contain them. The last three are built on the shared state. How a shutdown begins, with or
//! without a thread, is in `state/transitions.rs`.

pub(crate) mod deadline;
pub(crate) mod end_watch;
pub(crate) mod hooks;
pub(crate) mod plan;
pub(crate) mod progress;
pub(crate) mod report;
pub(crate) mod request;
pub(crate) mod steps;
pub(crate) mod termination;
