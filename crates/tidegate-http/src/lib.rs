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
