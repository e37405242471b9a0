//! A running gateway: listeners, reload, drain, signals.
//!
//! | file | what it is | uses |
//! |---|---|---|
//! | `error` | why a gateway cannot start or take over a configuration | |
//! | `listener` | a listener with its limits | `error` |
//! | `gateway` | [`Gateway`]: starts, takes over a new configuration, drains | `listener` |
//! | `run` | the command `run`: signals, reload, drain, the summary | `gateway` |

mod error;
mod gateway;
mod listener;
mod run;

pub use error::StartError;
pub use gateway::{Gateway, Summary};
pub(crate) use run::run;
