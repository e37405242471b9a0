//! The commands of routes, made from the configuration, and the words for what they refuse.
//!
//! | file | what it is | uses |
//! |---|---|---|
//! | `build` | the settings of a command; its retries | |
//! | `property` | the properties that a route cannot honour | |
//! | `reason` | why a request was refused or failed: words, statuses | |

mod build;
mod property;
mod reason;

pub(crate) use build::{configured, retries};
pub(crate) use property::why_refused;
pub(crate) use reason::{Problem, Reason};
