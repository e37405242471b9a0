//! The wait record: which executor's threads wait for which other executor.
//!
//! A blocking wait is checked before it sleeps. On a thread that must not block it is refused
//! at once. Elsewhere it leaves an edge from the executor it runs for to the home of what it
//! waits for, and is refused if all threads of every executor on some path back to itself
//! would then wait: a circle that nobody could leave. A thread that runs for no executor stands
//! in the record itself, if a `ThreadBuilder` started it, and so does one whose end is awaited.
//!
//! Edges go by home, not by who really completes the promise, so a wait whose promise a third
//! party completes may be refused for nothing; such a wait says so and skips the check.
//!
//! The record is one short lock, taken only by a thread that is about to sleep anyway.
//!
//! * `refused`: [`WaitRefused`], which names who would have waited for whom.
//! * `record`: the record itself, and [`change_width`].
//! * `check`: [`check_wait`], [`check_stance`] and the guard of a wait.
//!
//! Each knows only those before it.

mod check;
mod record;
mod refused;
#[cfg(all(test, not(tidegate_loom)))]
mod tests;

pub(crate) use self::check::check_end;
pub use self::check::{WaitGuard, check_stance, check_wait};
pub use self::record::change_width;
pub use self::refused::WaitRefused;
