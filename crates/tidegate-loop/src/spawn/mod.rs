//! Futures on an event loop.
//!
//! `slots.rs` is the slab that stores them, and does not use the event loop. `future.rs` spawns,
//! wakes and polls them, in the thread-local state (`thread/local.rs`) and through a submitted task
//! (`submit/`).

pub(crate) mod future;
pub(crate) mod root;
pub(crate) mod slots;
