//! The event streams of Hystrix, as text for any HTTP server.
//!
//! | file | content |
//! |---|---|
//! | `json` | writes JSON |
//! | `samples` | a command and a pool as the dashboard reads them |
//! | `sisters` | settings, utilization, and the log of a request |
//! | `stream` | [`HystrixStream`]: what a client has seen, and the events for it |
//!
//! Each file uses only those above it.

mod json;
mod samples;
mod sisters;
mod stream;

pub use self::stream::HystrixStream;
