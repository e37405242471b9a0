//! How a task is submitted, and what happens if it is refused.
//!
//! `reject.rs` has the policies and does not use the event loop. `execute.rs` submits a task into
//! the event loop's own queue (`thread/local.rs`) or its mailbox, and applies the policy if there
//! is no room.

pub(crate) mod execute;
pub(crate) mod reject;
