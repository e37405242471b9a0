//! A network within this process, for tests that have to control what happens when.
//!
//! * `network`: the addresses of a network, and who listens there.
//! * `listener`: a listener and the connections that wait there.
//! * `socket`: an end of a connection that threads use, as a test does.
//!
//! The ends of connections are those of [`channel`](crate::channel), below. Groups, servers and
//! clients are above: a [`NetGroup`](crate::NetGroup) that is built with a network connects and
//! listens there.

mod listener;
mod network;
mod socket;

pub use self::listener::LocalListener;
pub use self::network::LocalNetwork;
pub use self::socket::LocalSocket;
