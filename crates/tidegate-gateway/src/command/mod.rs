//! The commands of routes, made from the configuration, and the words for what they refuse.
//!
//! | file | what it is | uses |
//! |---|---|---|
//! | `build` | the settings of a command; its retries | |
//! | `commands` | the commands of a route: for requests, tunnels, the fallback | `build` |
//! | `reason` | why a request was refused or failed: words, statuses | |

mod build;
mod commands;
mod reason;

pub(crate) use build::{Apply, Terms, retries};
pub(crate) use commands::{Commands, terms};
pub(crate) use reason::{Problem, Reason};
