//! HTTP/1.1 on Tidegate's channels: a strict codec, a server, and a client.
//!
//! ```
//! let group = tidegate_net::pinned("web", 1)?;
//! let server = tidegate_http::serve(&group, "127.0.0.1:0", |request, response| {
//!     match request.path() {
//!         "/" => response.body("hello\n"),
//!         _ => response.status(404).body(""),
//!     }
//! })
//! .wait()?;
//! println!("http://{}/", server.local_addr());
//! # server.drain(std::time::Duration::from_secs(1)).wait()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The [`codec`] reads and writes messages and does no I/O. In the server, codec and service are one
//! handler: a request borrows from the received bytes, and its response is written directly into the
//! memory that is sent.
//!
//! The [`client`] keeps connections for the next call to the same host, with one exact limit for all
//! event loops.
//!
//! # Map of the crate
//!
//! | folder or file | content |
//! |---|---|
//! | [`codec`] | heads, bodies and their encoding: pure data, no I/O, no allocation per message |
//! | `wakers`, `gathered`, `pieces` | bodies between a connection and a reader on any thread |
//! | `server` | the handler that is codec and service in one, its connections, limits and responses |
//! | [`client`] | calls, connections, the pool that keeps them |
//! | `asynchronous` | a service as an async function of the types of the crate `http` |
//! | `router`, `files` | a service by method and path; a service that sends files of a directory |
//!
//! The events of a decoder do not depend on how its input is split, and after a refusal it looks at no
//! further byte. A request gets exactly one response, in order. No waker is called under a lock. Behind
//! a request that may change the protocol, no byte is parsed before the service has decided.
#![forbid(unsafe_code)]

#[cfg(feature = "async")]
mod asynchronous;
pub mod client;
pub mod codec;
mod files;
mod gathered;
mod percent;
mod pieces;
mod router;
mod server;
mod wakers;

pub use tidegate_net::FileRange;

#[cfg(feature = "async")]
pub use self::asynchronous::serve_async;
pub use self::codec::Method;
pub use self::files::{Files, FilesBuilder, FilesError};
pub use self::router::{Router, RouterBuilder, RouterError};
pub use self::server::{
    Body, BodyError, DeferredResponse, HttpMetrics, HttpServer, HttpServerBuilder, Limits, Request,
    Response, ResponseStream, Service, Switch, serve,
};
