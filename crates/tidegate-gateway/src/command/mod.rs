//! The commands of routes, made from the configuration, and the words for what they refuse.
//!
//! | file | what it is | uses |
//! |---|---|---|
//! | `build` | the settings of a command; its retries | |
//! | `reason` | why a request was refused or failed: words, statuses | |

mod build;
mod reason;

pub(crate) use build::{configured, retries};
pub(crate) use reason::{Problem, Reason};
