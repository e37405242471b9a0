//! How a task is submitted, and what happens if it is refused.
//!
//! `reject.rs` has the policies, and knows no loop. `execute.rs` submits: into the loop's own queue
//! (`thread/local.rs`) or into its mailbox, and follows the policy where there is no room.

pub(crate) mod execute;
pub(crate) mod reject;
