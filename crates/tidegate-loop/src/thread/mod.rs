//! How a loop gets a thread, what it keeps on it, and how it gives it back.
//!
//! | file | what |
//! |---|---|
//! | `presence.rs` | counts threads, for waits until there is none |
//! | `slot.rs` | the protocol of a start: one starts, others wait for the outcome |
//! | `suspend.rs` | how an idle loop gives its thread back |
//! | `run.rs` | what a loop's own thread does, from its start to its end |
//! | `local.rs` | what a loop keeps on its thread: its own tasks, timers and futures |
//! | `enter.rs` | the marks that make a thread the loop's |
//!
//! The first two know no loop and are part of the shared state; the others stand above it. The start
//! itself, which runs `run.rs` on a new thread, is in `state/transitions.rs`.

pub(crate) mod enter;
pub(crate) mod local;
pub(crate) mod presence;
pub(crate) mod run;
pub(crate) mod slot;
pub(crate) mod suspend;
