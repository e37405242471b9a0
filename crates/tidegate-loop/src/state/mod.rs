//! The state that the handles and the thread of an event loop share.
//!
//! | file | what |
//! |---|---|
//! | `lifecycle.rs` | the states of the life cycle, with a table of the transitions |
//! | `settings.rs` | the settings from the builder |
//! | `mailbox.rs` | task lane, signal lane, doorbell |
//! | `metrics.rs` | the counters, and their public snapshot |
//! | `health.rs` | the health of the driver |
//! | `handed_out.rs` | tasks that run on other threads |
//! | `shared.rs` | [`Shared`](shared::Shared): all of these, thread slot, shutdown state |
//! | `transitions.rs` | how an event loop starts, and how its shutdown begins |
//! | `wake.rs` | how an event loop is woken after a push |
//!
//! Each file uses only those above it. `shared.rs` also uses `thread/slot.rs`,
//! `thread/presence.rs`, `submit/reject.rs`, `spawn/slots.rs`, `core/budget.rs` and the first files
//! of `shutdown/`: parts that own their data and do not use [`Shared`](shared::Shared). All other
//! code that takes a `Shared` is built on top of it.

pub(crate) mod handed_out;
pub(crate) mod health;
pub(crate) mod lifecycle;
pub(crate) mod mailbox;
pub(crate) mod metrics;
pub(crate) mod settings;
pub(crate) mod shared;
pub(crate) mod transitions;
pub(crate) mod wake;
