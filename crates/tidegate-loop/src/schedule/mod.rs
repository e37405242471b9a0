//! The timers of a loop: scheduled tasks, periodic tasks, timeouts and sleeps.
//!
//! A loop has two timer engines. Scheduled tasks wait in a heap: they are precise, and keep their order
//! among equals. Timeouts and sleeps wait in a wheel: adding and cancelling one costs the same however
//! many there are, and they fire up to a tick late. [`tidegate_timer`] owns both; its crate docs say
//! under "Four engines" why each exists and what they share.
//!
//! | file | what |
//! |---|---|
//! | `period.rs` | when a periodic task runs again, and what becomes of missed runs |
//! | `timers.rs` | the heap of one loop: its scheduled tasks, run in passes |
//! | `timeouts.rs` | the wheel of one loop |
//! | `scheduled_task.rs` | how a task is scheduled, fired, put back and cancelled |
//! | `timeout.rs` | the same for a timeout, and its handle |
//! | `sleep.rs` | time as a future: `sleep` and `timeout` |
//!
//! The first three are data that the loop keeps on its thread (`thread/local.rs` knows them); the next
//! two reach them there. `sleep.rs` stands above the handles. Timers that are due are run by `core/due.rs`.

pub(crate) mod period;
pub(crate) mod scheduled_task;
pub(crate) mod sleep;
pub(crate) mod timeout;
pub(crate) mod timeouts;
pub(crate) mod timers;
