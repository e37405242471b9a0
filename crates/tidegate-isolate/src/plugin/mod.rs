//! Plug-in points: user code that a program adds around every call. Several plug-ins of each kind
//! are allowed. They are called in the order in which they were added, and a panic in one does not
//! stop the others.
//!
//! `plugins` holds and calls them; `call_stage` lists the stages of a call for hooks. This module
//! uses keys, events and the transitions of a breaker.

mod call_stage;
mod plugins;

pub use self::call_stage::CallStage;

pub(crate) use self::plugins::{Install, Plugins, Restore};
