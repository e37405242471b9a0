//! Event loops with I/O: pollers, channels, pipelines, servers and clients.
//!
//! Programs use this crate through the facade, [`tidegate`](../tidegate/index.html).
//!
//! ```
//! use bytes::Bytes;
//! use tidegate_net::handlers::LineFrames;
//! use tidegate_net::{Blocking, Inbound, InboundContext, Nothing, Server};
//!
//! struct Shout;
//! impl Inbound for Shout {
//!     type In = Bytes;
//!     type Out = Nothing; // passes nothing on
//!     type Write = Bytes;
//!     const BLOCKING: Blocking = Blocking::Never;
//!     fn read(&mut self, line: Bytes, ctx: &mut InboundContext<'_, Self>) {
//!         ctx.write(line.to_ascii_uppercase());
//!     }
//!     fn read_complete(&mut self, ctx: &mut InboundContext<'_, Self>) {
//!         ctx.flush();
//!     }
//! }
//!
//! let group = tidegate_net::pinned("io", 2)?;
//! let server = Server::builder(&group)
//!     .pipeline(|p| p.add("lines", LineFrames::max(8 * 1024)).add("shout", Shout))
//!     .bind("127.0.0.1:0")
//!     .wait()?;
//! println!("listening on {}", server.local_addr());
//! # server.stop_accepting().wait()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Map of the crate
//!
//! A message costs one `recv`, one `send` and a share of a poll. From the lowest to the highest:
//!
//! | folder or file | content |
//! |---|---|
//! | `sys` | the poller and the sockets of the operating system |
//! | `events` | events of the poller, and the table of their sources |
//! | `source` | sources of the program's own, and updates that run on the loop |
//! | `reactor` | how events reach channels, on pinned and on roaming loops |
//! | `channel` | a connection: states, reading, write queue, handles |
//! | `pipeline` | handlers in a row |
//! | `local` | connections within the process, for tests |
//! | `group` | loops with I/O, and how channels are placed on them |
//! | `server`, `client`, `resolve`, `lookups`, `name_cache` | listeners and drains; connecting; name resolution |
//! | `handlers`, `stream`, `tls` | framing, idle limits, shaping; channels as byte streams; encryption |
//! | `embedded` | a channel without a socket, for tests |
//!
//! A roaming source is either in its slot or in the task that handles its event, so handlers need no
//! lock. Between two waits a loop selects ready sources, runs updates, then applies interests. Every
//! write completes or fails once, and an idle connection holds no buffer.
#![deny(unsafe_code)]
#![cfg_attr(
    not(all(feature = "embedded", feature = "roaming")),
    allow(
        dead_code,
        unreachable_pub,
        unused_imports,
        rustdoc::broken_intra_doc_links,
        reason = "one reactor serves all kinds of loops, and sources without a socket"
    )
)]

// A folder uses only those that the table lists before it.
// Any layer may use `errors`, `message`, `metrics` and `awaited`. `server` and `client` use
// `resolve`, which uses `lookups`; `client` also uses `name_cache`.

mod awaited;
mod channel;
mod client;
#[cfg(feature = "embedded")]
mod embedded;
mod errors;
mod events;
mod group;
#[cfg(feature = "handlers")]
pub mod handlers;
mod local;
mod lookups;
mod message;
mod message_box;
mod metrics;
mod name_cache;
mod pipeline;
mod reactor;
mod resolve;
mod server;
pub mod source;
#[cfg(feature = "streams")]
mod stream;
mod sys;
#[cfg(feature = "tls")]
pub mod tls;

pub use bytes::{Bytes, BytesMut};
pub use tidegate_core::Blocking;

pub use self::channel::read_size::{ReadSize, ReadSizeError};
pub use self::channel::write_queue::{WaterMarks, WaterMarksError};
pub use self::channel::{
    Channel, ChannelOptions, Datagram, Deregistered, FileRange, InputShutdown, Registered,
    UserEvent,
};
pub use self::client::{Client, ClientBuilder};
#[cfg(feature = "embedded")]
pub use self::embedded::EmbeddedChannel;
pub use self::errors::NetError;
#[cfg(feature = "roaming")]
pub use self::group::roaming;
pub use self::group::{ChannelPlacement, NetGroup, NetGroupBuilder, block_on, pinned};
pub use self::message::{AnyMessage, Message, Nothing};
pub use self::metrics::IoMetrics;
pub use self::pipeline::{
    Handler, HandlerContext, Inbound, InboundContext, Neighbour, Outbound, OutboundContext,
    PipelineBuilder, PipelineChange, PipelineError, TypedContext,
};
pub use self::resolve::Address;
pub use self::server::{
    DrainAnnounced, DrainReport, Draining, Listener, Server, ServerBuilder, ServerMetrics,
};
#[cfg(feature = "streams")]
pub use self::stream::{
    AnyThread, ByteStream, DrainSignal, LocalStream, LocalStreamHandler, OwnLoop, StreamHandler,
    StreamKind,
};
pub use self::sys::Readiness;

/// Items for the other crates of this workspace only. Unstable: they change without notice.
#[doc(hidden)]
pub mod internal {
    pub use crate::channel::{HeldInput, PeerProgress, StreamRoom};
    pub use crate::group::ChannelPlacer;
    pub use crate::local::{LocalListener, LocalNetwork, LocalSocket};
    pub use crate::pipeline::{Direction, Inwards, Outwards};
    pub use crate::resolve::{Resolver, system_resolver};
    #[cfg(feature = "streams")]
    pub use crate::stream::{StreamCell, StreamState};
}
