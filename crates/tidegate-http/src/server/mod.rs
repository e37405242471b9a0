//! The HTTP/1.1 server.
//!
//! | file | contents |
//! |---|---|
//! | `serve` | [`serve`] and [`HttpServer`]: starts a server |
//! | `handler` | the handler of a connection in its pipeline |
//! | `connection` | one connection: requests in, responses out, in order |
//! | `queue`, `part` | responses that wait for earlier ones; messages from other threads about them |
//! | `request`, `body` | what a service reads |
//! | `response`, `deferred` | what a service writes, at once or later |
//! | `interim` | heads before the response, and those that wait for their turn |
//! | `flow`, `reply_path` | how much of a streamed response waits for its turn; what the handles of responses share |
//! | `head_writer` | the head of a response, written into the memory that is sent |
//! | `spare_output`, `spare_table` | the memory of deferred responses, and of the offsets of a head |
//! | `service`, `shared` | the user's code; what all connections of a server share |
//! | `limits`, `metrics`, `trouble`, `date` | settings, counters, errors and their reports, the `Date` field |
//! | `switch` | a change of the protocol: the handlers that take over a connection |
//! | `input`, `wire` | received bytes; the context of a handler in both directions |
//!
//! Imports point downwards in this order: `serve` → `handler` → `connection` → `queue`, `request`,
//! `response` → the rest.

mod body;
mod connection;
mod date;
mod deferred;
mod flow;
mod handler;
mod head_writer;
mod input;
mod interim;
mod limits;
mod metrics;
mod part;
mod queue;
mod reply_path;
mod request;
mod response;
mod serve;
mod service;
mod shared;
mod spare_output;
pub(crate) mod spare_table;
mod switch;
#[cfg(test)]
pub(crate) mod tests;
mod trouble;
mod wire;

pub(crate) use self::input::{Received, take_data};

#[cfg(feature = "async")]
pub(crate) use self::part::ServiceFault;
#[cfg(feature = "async")]
pub(crate) use self::trouble::Trouble;

pub use self::body::{Body, BodyError};
pub use self::deferred::{DeferredResponse, ResponseStream};
pub use self::limits::Limits;
pub use self::metrics::HttpMetrics;
pub use self::request::Request;
pub use self::response::Response;
pub use self::serve::{HttpServer, HttpServerBuilder, serve};
pub use self::service::Service;
pub use self::switch::Switch;
