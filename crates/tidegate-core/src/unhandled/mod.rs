//! Errors that nobody handles, and where they go.
//!
//! * `report`: [`Unhandled`], what went wrong.
//! * `hook`: [`OnUnhandled`], which hears of it on a thread of its own.
//! * `flush`: [`OnUnhandled::flush`], the one call that waits for a hook without limit.
//!
//! `hook` lies below executors and wait checks, which report to it; `flush` lies above them.

mod flush;
mod hook;
mod report;

pub use self::hook::OnUnhandled;
pub use self::report::Unhandled;
