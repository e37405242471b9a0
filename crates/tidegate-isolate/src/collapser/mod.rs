//! Collapsing: many small requests become one call.
//!
//! Requests are collected for a short time. Then one batch runs through a command, with all of its
//! protection, and each request receives its own part of the result.
//!
//! `handle` is the collapser, `batch` holds the collected requests, and `config` has the settings,
//! which are live properties. This module uses commands.
//!
//! # Invariants
//!
//! * A request is in exactly one batch, and ends exactly once.
//! * A batch runs once: by its timer, or by the request that filled it.
//! * A batch whose callers have all cancelled is not run.

mod batch;
mod config;
mod error;
mod handle;

pub use self::config::{CollapserConfig, CollapserScope};
pub use self::error::CollapserError;
pub use self::handle::Collapser;

#[cfg(test)]
pub(crate) use self::config::PROPERTIES;
