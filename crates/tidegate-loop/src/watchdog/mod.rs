//! A watchdog: says when a loop is stuck, and what it is stuck in.
//!
//! | file | what |
//! |---|---|
//! | `report.rs` | what it says |
//! | `watching.rs` | how it looks at loops, once a tick |
//! | `handle.rs` | [`Watchdog`](handle::Watchdog) and its builder |
//!
//! Each file knows those above it. It reads what loops write for their metrics (`state/`); no loop
//! knows that it is watched.

pub(crate) mod handle;
pub(crate) mod report;
pub(crate) mod watching;
