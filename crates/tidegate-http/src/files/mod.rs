//! Static files: a service that sends the files of a directory.
//!
//! | file | contents |
//! |---|---|
//! | `service` | [`Files`]: from a request to its response |
//! | `builder` | [`FilesBuilder`] and [`FilesError`] |
//! | `reply` | what the response to a request for an open file is |
//! | `answer` | one response, and the caller that is told how it ended |
//! | `conditions`, `ranges` | conditional requests; the field `Range` |
//! | `directory` | opens files, and lets no path leave the directory |
//! | `path` | the path of a request as a path below the directory |
//! | `validators`, `types` | `ETag` and `Last-Modified`; content types by extension |
//!
//! Imports point downwards in this order: `builder` → `service` → `reply` → the rest.

mod answer;
mod builder;
mod conditions;
mod directory;
mod path;
mod ranges;
mod reply;
mod service;
#[cfg(test)]
mod tests;
mod types;
mod validators;

pub use self::builder::{FilesBuilder, FilesError};
pub use self::service::Files;
