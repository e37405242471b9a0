//! The commands of routes, made from the configuration, and the words for what they refuse.
//!
//! | file | what it is | uses |
//! |---|---|---|
//! | `build` | the settings of a command; its retries | |
//! | `commands` | the commands of a route: for requests, tunnels, the fallback | `build` |
//! | `property` | the properties that a route cannot honour | |
//! | `reason` | why a request was refused or failed: words, statuses | |

mod build;
mod commands;
mod property;
mod reason;

pub(crate) use build::retries;
pub(crate) use commands::Commands;
pub(crate) use property::{why_refused, why_without_effect, why_without_effect_in, why_wrong};
pub(crate) use reason::{Problem, Reason};
