//! Connections: the handle that users hold, and the channel that its event loop owns.
//!
//! From bottom to top; each file depends only on those before it:
//!
//! * `options`, `read_size`, `file_range`, `waiters`, `write_queue`, `event`, `channel_request`, `spare_requests`,
//!   `pending`, `server_memory`, `server_connections`: settings, events, requests from other threads, and accounting.
//! * `peer`, `home`, `end`: the other end; where a channel lives and is waited for; its end.
//! * `shared`: state that handles and the loop share, with `delivery` for its signal and `of_server` for what a server needs of
//!   its channels; `handle`: the public [`Channel`]; `held_input`, `input_end`,
//!   `stream_room`.
//! * `test_transport`, `local`, `datagram`, `transport`: the socket, or its replacement in memory.
//! * `timers`, `state`, `deadlines`, `io`, `pipeline`: the state that a channel and its handlers share, and the
//!   interface of the pipeline.
//! * `core`: the channel on its loop; `registration`, `release`, `requests`, `flush`, `linger`, `close`,
//!   `fast_path`, `neighbour`, `batch`, `dump` and `traced` contain the rest of its methods.
//!
//! A channel is an event source of the [`reactor`](crate::reactor). The pipeline is in the layer
//! above: a channel is generic over it.

mod batch;
mod channel_request;
mod close;
mod core;
mod datagram;
mod deadlines;
mod delivery;
mod dump;
mod end;
mod event;
mod fast_path;
mod file_range;
mod flush;
mod handle;
mod held_input;
mod home;
mod input_end;
mod io;
mod linger;
mod local;
#[cfg(test)]
#[cfg(unix)]
mod message_tests;
mod neighbour;
mod of_server;
mod options;
mod peer;
mod peer_progress;
mod pending;
mod pipeline;
pub(crate) mod read_size;
mod registration;
mod release;
mod requests;
mod server_connections;
mod server_memory;
mod shared;
mod spare_requests;
mod start;
mod state;
mod stream_room;
mod test_transport;
#[cfg(test)]
mod tests;
mod timers;
mod traced;
mod transport;
mod waiters;
pub(crate) mod write_queue;

pub(crate) use self::channel_request::{ChangeRequest, ChannelRequest, refuse_write};
pub(crate) use self::core::ChannelCore;
pub use self::datagram::Datagram;
pub use self::event::{Deregistered, InputShutdown, Registered, UserEvent};
pub(crate) use self::event::{HandlerEvent, InEvent, OutOp, mask};
#[cfg(feature = "tls")]
pub(crate) use self::file_range::CHUNK;
pub use self::file_range::FileRange;
pub use self::handle::Channel;
pub(crate) use self::handle::ring_timer;
pub use self::held_input::HeldInput;
pub(crate) use self::home::Home;
#[cfg(feature = "tls")]
pub(crate) use self::input_end::InputEnd;
#[cfg(feature = "handlers")]
pub(crate) use self::input_end::ends_input;
pub(crate) use self::io::{ChannelIo, Record};
pub(crate) use self::local::{LocalEnd, local_ends};
pub use self::options::ChannelOptions;
pub(crate) use self::peer::Peer;
pub use self::peer_progress::PeerProgress;
pub(crate) use self::pipeline::ChannelPipeline;
pub(crate) use self::server_connections::{LimitReached, ServerConnections, ServerLimits};
pub(crate) use self::shared::Shared;
pub(crate) use self::start::{Connecting, Start};
pub(crate) use self::state::Flags;
pub use self::stream_room::StreamRoom;
pub(crate) use self::test_transport::TestTransport;
pub(crate) use self::timers::TimedWork;
pub(crate) use self::transport::Transport;
