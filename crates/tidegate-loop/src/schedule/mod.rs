//! The timers of an event loop: scheduled tasks, periodic tasks, coarse timers and sleeps.
//!
//! An event loop has two timer engines. Scheduled tasks wait in a heap: they are precise, and tasks
//! with equal deadlines keep their order. CoarseTimers and sleeps wait in a timer wheel: adding and
//! cancelling one costs the same however many there are, and they fire up to a tick late.
//! [`tidegate_timer`] has both engines; its crate docs explain under "Four engines" why each exists
//! and what they share.
//!
//! | file | what |
//! |---|---|
//! | `timers.rs` | the heap of one event loop: its scheduled tasks, run in passes |
//! | `coarse_timers.rs` | the wheel of one event loop |
//! | `scheduled_task.rs` | how a task is scheduled, fired, re-inserted and cancelled |
//! | `coarse_timer.rs` | the same for a coarse timer, and its handle |
//! | `sleep.rs` | time as a future: `sleep` and `timeout` |
//!
//! The first two are data that the event loop keeps on its thread (`thread/local.rs`); the next
//! two use them there. `sleep.rs` is built on the handles. `core/due.rs` runs the timers that are
//! due. Periods and periodic tasks are those of `tidegate-pool` (`schedule`), whose pools and views
//! schedule tasks too.

pub(crate) mod coarse_timer;
pub(crate) mod coarse_timers;
pub(crate) mod scheduled_task;
pub(crate) mod sleep;
pub(crate) mod timers;
