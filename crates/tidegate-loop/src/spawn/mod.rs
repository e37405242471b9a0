//! Futures on an event loop.
//!
//! `slots.rs` is the slab that stores them, and does not use the event loop. `future.rs` spawns,
//! wakes and polls them, in the thread-local state (`thread/local.rs`) and through a submitted task
//! (`submit/`). `root.rs` is the future of `block_on`, which has no slot: it stays on the stack of
//! the thread that drives the event loop.

pub(crate) mod future;
pub(crate) mod root;
pub(crate) mod slots;
