//! The wait record: which executors have threads that wait for which other executors.
//!
//! A blocking wait is checked before the thread sleeps. On a thread that must not block, the wait
//! is refused at once. On any other thread, the wait is added to the record: to each *place* for
//! which the thread works. These are the executors whose work it runs (a view and the pool under
//! it), and the tasks with a promise that it runs. A thread that runs for no executor is a place by
//! itself if a `ThreadBuilder` started it, and so is a thread whose end is awaited.
//!
//! What a wait needs:
//!
//! * the outcome of a task that has started: the thread that runs it;
//! * the outcome of a task that has not started: a thread of its executor, and of what is under it;
//! * any other promise with a home: a thread of its home. Such a promise belongs to its home, and
//!   the record assumes that its home completes it;
//! * the end of an executor: all its tasks.
//!
//! A need is stuck if every thread that could serve it waits for something that is stuck: all
//! threads on which an executor's tasks can rely, or the one thread that runs a task. A wait that
//! needs something stuck can never end by itself, and is refused. A wait with a time limit ends by
//! itself, so it never makes anything stuck; it is refused if only its limit could end it.
//!
//! What only an event from outside could end, such as a cancellation, a shutdown, another width or
//! a task that is displaced from a queue, counts as never ending.
//!
//! The record is behind one short lock, taken only by a thread that is about to sleep anyway, and by
//! a task that starts, or a promise that is decided, while such a thread waits for it.
//!
//! * `refused`: [`WaitRefusedError`], which names the executors of the refused wait.
//! * `record`: the record itself, [`change_width`] and [`needs_nothing`].
//! * `check`: [`check_wait`], [`check_wait_for`], [`check_may_block`] and the guard of a wait.
//!
//! Each module uses only the modules listed before it.

mod check;
mod record;
mod refused;
#[cfg(all(test, not(tidegate_loom)))]
mod tests;

pub(crate) use self::check::check_end;
pub use self::check::{Awaited, WaitGuard, check_may_block, check_wait, check_wait_for};
pub use self::record::{Capacity, WaitEdge, change_width, needs_nothing, record_wait};
pub use self::refused::WaitRefusedError;
