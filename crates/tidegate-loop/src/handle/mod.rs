//! What a program holds of a loop, and the builder that makes one.
//!
//! | file | what |
//! |---|---|
//! | `placement.rs` | pinned or roaming, as a type |
//! | `forward.rs` | forwarding the methods of an executor |
//! | `event_loop.rs` | [`EventLoop`](event_loop::EventLoop), the handle |
//! | `as_executor.rs`, `inactivity.rs` | the handle as an executor; waiting until it has no thread |
//! | `timers.rs` | a handle to the timers alone, which does not keep the loop running |
//! | `by_hand.rs` | a loop that its owner drives, turn by turn |
//! | `builder.rs` | how a loop is described and made: the only file that knows both handle and core |
//!
//! The handle knows everything that one loop is made of: `state/`, `submit/`, `schedule/`, `spawn/`,
//! `shutdown/`; none of them knows the handle. Groups, roaming loops and the watchdog stand above it.

pub(crate) mod as_executor;
pub(crate) mod builder;
pub(crate) mod by_hand;
pub(crate) mod event_loop;
pub(crate) mod forward;
pub(crate) mod inactivity;
pub(crate) mod placement;
pub(crate) mod timers;
