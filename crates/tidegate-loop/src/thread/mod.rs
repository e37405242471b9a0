//! How an event loop gets a thread, what it keeps on it, and how it gives it back.
//!
//! | file | what |
//! |---|---|
//! | `presence.rs` | counts threads, for waits until there is none |
//! | `slot.rs` | the start protocol: one caller starts the thread, others wait for the outcome |
//! | `suspend.rs` | how an idle event loop gives its thread back |
//! | `run.rs` | the main function of an event loop's own thread |
//! | `local.rs` | the state on the thread: the event loop's own tasks, timers and futures |
//! | `enter.rs` | the marks of a thread that drives an event loop |
//!
//! The first two are part of the shared state and do not use it; the others are built on it. The
//! start itself, which runs `run.rs` on a new thread, is in `state/transitions.rs`.

pub(crate) mod enter;
pub(crate) mod local;
pub(crate) mod presence;
pub(crate) mod run;
pub(crate) mod slot;
pub(crate) mod suspend;
