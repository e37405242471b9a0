//! Which server of an upstream takes a request, as pure data.
//!
//! | file | what it is | uses |
//! |---|---|---|
//! | `server` | a server: weight, requests in flight, state | |
//! | `picker` | the choice among servers; the state of one loop | `server` |
//!
//! The servers are shared by all loops; a picker belongs to one loop. A choice reserves a permit of
//! its server, so that `max_in_flight` is exact over all loops.

mod picker;
mod server;
#[cfg(test)]
mod tests;

pub use picker::{Picker, Strategy};
pub(crate) use server::WeakServer;
pub use server::{Lease, ServerState};
