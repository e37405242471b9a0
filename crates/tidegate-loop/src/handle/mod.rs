//! The handles of an event loop, and the builder that creates one.
//!
//! | file | what |
//! |---|---|
//! | `placement.rs` | pinned or roaming, as a type |
//! | `forward.rs` | forwards the methods of an executor |
//! | `event_loop.rs` | [`EventLoop`](event_loop::EventLoop), the handle |
//! | `schedule.rs` | its methods that schedule tasks |
//! | `collect.rs` | the metrics of an event loop, described for an exporter |
//! | `as_executor.rs` | the handle as an executor |
//! | `inactivity.rs` | waiting until the event loop has no thread |
//! | `starter.rs` | gives the event loop a thread, for work that only sends a signal |
//! | `timers.rs` | a handle to the timers alone, which does not keep the event loop running |
//! | `manual.rs` | an event loop that its owner drives, turn by turn |
//! | `builder.rs` | the builder: the only file that uses both handle and core |
//! | `block_on.rs` | runs a future on the calling thread, which drives an event loop meanwhile |
//!
//! The handle uses all parts of an event loop: `state/`, `submit/`, `schedule/`, `spawn/`,
//! `shutdown/`. None of them uses the handle. Groups, roaming loops and the watchdog are built on
//! it.

pub(crate) mod as_executor;
pub(crate) mod block_on;
pub(crate) mod builder;
mod collect;
pub(crate) mod event_loop;
pub(crate) mod forward;
pub(crate) mod inactivity;
pub(crate) mod manual;
pub(crate) mod placement;
pub(crate) mod schedule;
pub(crate) mod starter;
pub(crate) mod timers;
