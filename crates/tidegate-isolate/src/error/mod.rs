//! Errors: what a call ends with instead of an answer, and what is wrong with a configuration.
//!
//! `cause` lists the reasons and what each is counted as; `command_error` is the error that a
//! caller and a fallback see; `invalid` is a setting that is refused; `contain` turns a panic of
//! user code into its message. Knows keys and events.

mod cause;
mod command_error;
mod contain;
mod invalid;

pub use self::cause::{Cause, Refused};
pub use self::command_error::{CommandError, FallbackError};
pub use self::invalid::Invalid;

pub(crate) use self::contain::contain;
