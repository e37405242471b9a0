//! Servers: listening sockets and the connections that they accept.
//!
//! From bottom to top: `drain` ends the connections of a server together, `listener` accepts them,
//! `builder` has the public handle, `drain_on` its drain by a signal; `collect` describes its
//! metrics. Uses [`group`](crate::group); names are resolved by [`resolve`](crate::resolve), as for
//! clients.

mod builder;
mod collect;
mod drain;
mod drain_on;
mod listener;

pub use self::builder::{Server, ServerBuilder};
pub use self::drain::{DrainReport, Draining};
