//! The watchdog: reports when an event loop is stuck, and in which task.
//!
//! | file | what |
//! |---|---|
//! | `report.rs` | the reports |
//! | `watching.rs` | the check of all event loops, once per tick |
//! | `handle.rs` | [`Watchdog`](handle::Watchdog) and its builder |
//!
//! Each file uses only those above it. The watchdog reads what event loops write for their metrics
//! (`state/`); an event loop does not know that it is watched.

pub(crate) mod handle;
pub(crate) mod report;
pub(crate) mod watching;
