//! The wait record: which executors have threads that wait for which other executors.
//!
//! A blocking wait is checked before the thread sleeps. On a thread that must not block, the wait
//! is refused at once. On any other thread, the wait adds an edge to the record: from the executor
//! whose work the thread runs to the home of the awaited promise, which is the executor that the
//! promise belongs to. The wait is refused if it closes a cycle in which all threads of every
//! executor wait: a deadlock. A thread that runs for no executor is a node of the record by itself
//! if a `ThreadBuilder` started it, and so is a thread whose end is awaited.
//!
//! A wait for the end of an executor is a wait for each of its threads. It is refused if any one of
//! them is on the cycle, also if the others are free.
//!
//! Edges go to the home, not to the thread that really completes the promise. A wait whose promise
//! a third party completes may therefore be refused although it would end; such a wait declares
//! this and skips the check.
//!
//! The record is behind one short lock, taken only by a thread that is about to sleep anyway.
//!
//! * `refused`: [`WaitRefusedError`], which names the executors of the refused wait.
//! * `record`: the record itself, and [`change_width`].
//! * `check`: [`check_wait`], [`check_may_block`] and the guard of a wait.
//!
//! Each module uses only the modules listed before it.

mod check;
mod record;
mod refused;
#[cfg(all(test, not(tidegate_loom)))]
mod tests;

pub(crate) use self::check::check_end;
pub use self::check::{WaitGuard, check_may_block, check_wait};
pub use self::record::{Capacity, WaitEdge, change_width, record_wait};
pub use self::refused::WaitRefusedError;
