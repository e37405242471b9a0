//! A connection.

mod core;
mod datagram;
mod ending;
mod handle;
mod local;
mod mail;
mod off;
mod options;
mod output;
mod plain;
pub(crate) mod read_size;
mod shared;
mod start;
#[cfg(test)]
mod tests;
mod transport;
pub(crate) mod write_queue;

pub(crate) use self::core::ChannelCore;
pub use self::datagram::Datagram;
pub(crate) use self::datagram::Outbox;
pub use self::handle::Channel;
pub(crate) use self::handle::ring_timer;
pub(crate) use self::local::local_ends;
pub use self::options::{
    ChannelOptions, DEFAULT_CLOSE_TIMEOUT, DEFAULT_CONNECT_TIMEOUT, DEFAULT_READS_PER_TURN,
};
pub use self::shared::Closed;
pub(crate) use self::shared::{Home, Mail, Shared, refuse};
pub(crate) use self::start::{Connecting, Start};
pub(crate) use self::transport::Transport;
