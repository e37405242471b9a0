//! Servers: listening sockets and the connections that they accept.
//!
//! From bottom to top: `listening` is a socket, `server_shared` the state of a server, `drain` ends
//! the connections of a server together, `listener` accepts them. `builder` has the public handle
//! and its builder; `limits`, `control` and `drain_on` have more of their methods, and `metrics` the
//! metrics. Uses [`group`](crate::group); names are resolved by [`resolve`](crate::resolve), as for
//! clients.

mod builder;
mod control;
mod drain;
#[cfg(feature = "signal")]
mod drain_on;
mod limits;
mod listener;
mod listening;
mod metrics;
mod server_shared;

pub use self::builder::{Server, ServerBuilder};
pub use self::drain::{DrainAnnounced, DrainReport, Draining};
pub use self::listening::Listener;
pub use self::metrics::ServerMetrics;
