//! Servers: somewhere to connect to.
//!
//! From bottom to top: `drain` ends the connections of a server together, `listener` accepts them,
//! `builder` has the public handle. Above [`group`](crate::group); addresses are looked up by
//! [`resolve`](crate::resolve), as for clients.

mod builder;
mod drain;
mod listener;

pub use self::builder::{DEFAULT_ACCEPT_PAUSE, DEFAULT_BACKLOG, Server, ServerBuilder};
pub use self::drain::{DRAIN_GRACE, DrainReport, Draining};
