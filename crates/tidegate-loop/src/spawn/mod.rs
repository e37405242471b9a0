//! Futures on a loop.
//!
//! `slots.rs` is the slab in which they live, and knows no loop; `future.rs` spawns, wakes and polls
//! them, on the thread-local state (`thread/local.rs`) and through a submitted task (`submit/`).

pub(crate) mod future;
pub(crate) mod slots;
