//! What the exporter writes, read by a strict parser and by `promtool`; what the event streams
//! write, read as JSON.
#![expect(
    clippy::unwrap_used,
    reason = "in a test an unwrap is an assertion, in its helpers too"
)]

mod export;
mod hostile;
mod parser;
mod promtool;
mod streams;
