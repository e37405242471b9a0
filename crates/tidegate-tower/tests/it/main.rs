//! Commands as layers: a call from its admission to the end of its body, rejections as errors and as
//! responses, and retries.

#![expect(
    clippy::unwrap_used,
    reason = "in a test an unwrap is an assertion, in its helpers too"
)]

mod bodies;
mod calls;
mod chaos;
mod hostile;
mod plain;
mod rejections;
mod responses;
mod retries;
mod support;
