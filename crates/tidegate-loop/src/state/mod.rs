//! What the handles of a loop and its thread share.
//!
//! | file | what |
//! |---|---|
//! | `lifecycle.rs` | the states of a loop's life, with a table of its transitions |
//! | `settings.rs` | what the loop was built with |
//! | `mailbox.rs` | task lane, signal lane, doorbell |
//! | `metrics.rs` | counters, and what a program sees of them |
//! | `health.rs` | how the driver fares |
//! | `handed_out.rs` | tasks that other threads run |
//! | `shared.rs` | [`Shared`](shared::Shared): all of these, with the thread slot and the parts of an end |
//! | `transitions.rs` | how a loop starts, and how its end begins |
//! | `wake.rs` | how a loop is woken after something was pushed |
//!
//! Each file knows those above it. Below `shared.rs` are also `thread/slot.rs`, `thread/presence.rs`,
//! `submit/reject.rs`, `spawn/slots.rs`, `core/budget.rs` and the first files of `shutdown/`: parts that
//! own their data and do not know the whole. Whatever else takes a `Shared` stands above it.

pub(crate) mod handed_out;
pub(crate) mod health;
pub(crate) mod lifecycle;
pub(crate) mod mailbox;
pub(crate) mod metrics;
pub(crate) mod settings;
pub(crate) mod shared;
pub(crate) mod transitions;
pub(crate) mod wake;
