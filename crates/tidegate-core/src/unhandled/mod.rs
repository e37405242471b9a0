//! Errors that no other code handles, and the hook that receives them.
//!
//! * `report`: [`Unhandled`], the error.
//! * `hook`: [`OnUnhandled`], which receives errors on a thread of its own.
//! * `flush`: [`OnUnhandled::flush`], the only call that waits for a hook without a time limit.
//!
//! `hook` is below executors and wait checks, which report to it; `flush` is above them.

mod flush;
mod hook;
mod report;

pub use self::hook::OnUnhandled;
pub use self::report::Unhandled;
