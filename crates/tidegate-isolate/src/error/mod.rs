//! Errors: the error of a call, and the error of an invalid setting.
//!
//! `cause` lists the reasons and the event that each counts as. `command_error` is the error that a
//! caller and a fallback see. `config_error` is the error of a setting. `contain` turns a panic of
//! user code into its message. This module uses keys and events.

mod cause;
mod command_error;
mod config_error;
mod contain;

pub(crate) use self::cause::for_readers;
pub use self::cause::{Cause, Rejection};
pub use self::command_error::{CommandError, FallbackError};
pub use self::config_error::ConfigError;

pub(crate) use self::contain::contain;
