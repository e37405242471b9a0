//! Collapsing: many small requests become one call.
//!
//! Requests are gathered for a moment; then one batch goes through a command, with everything that
//! protects it, and each request gets its own part of the answer.
//!
//! `handle` is the collapser, `batch` what it gathers, `config` its settings, which are live
//! properties. Knows commands.
//!
//! # Invariants
//!
//! * A request is in exactly one batch, and ends exactly once.
//! * A batch is run once: by its timer, or by the request that filled it.
//! * A batch nobody waits for any more is not run.

mod batch;
mod config;
mod error;
mod handle;

pub use self::config::{CollapseScope, CollapserConfig};
pub use self::error::CollapseError;
pub use self::handle::Collapser;
