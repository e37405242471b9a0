//! The access log: a line of JSON for each request.
//!
//! | file | what it is | uses |
//! |---|---|---|
//! | `record` | what a line says about a request | |
//! | `line` | a record as a line of JSON | `record` |
//! | `buffer` | the lines of one loop that wait, and its samples | `line` |
//! | `writer` | the thread that writes the lines; what was lost | `buffer` |
//! | `log` | the handle: takes records, reopens, ends | `writer` |
//!
//! A loop writes a line into memory that only it and the writer use, and never waits for the disk.
//! If more lines wait than the log may hold, or if they cannot be written, they are lost and
//! counted.
//!
//! Invariant: each record that is sampled is written or counted as lost, exactly once.

mod buffer;
mod line;
mod log;
mod record;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use line::timestamp;
pub use log::AccessLog;
pub(crate) use log::OwedLine;
pub use record::{Outcome, Record};
pub use writer::Opener;
