//! Timeouts of running calls, and tasks at a time.
//!
//! Arming a timeout puts nothing into a queue: a call writes its deadline into a `Flight` that
//! its thread keeps for the next call, and one thread looks over the flights when the earliest
//! deadline has come. Most calls end long before, so that thread sleeps nearly always: it wakes
//! once per timeout while calls are made, and not at all when none are.
//!
//! `aside` has the threads of a command for callbacks, `tasks` what is set to a time, `timer_thread`
//! what the one thread does with them and with the flights. `handle` is what commands hold, `flights`
//! how a call gets a flight and arms it, `pause` a future that waits. Knows calls in flight
//! (`in_flight`), and no command.
//!
//! # Why not the wheel
//!
//! A wheel pays for each call, an insertion and a removal, and most calls need no timeout. With a
//! thousand others waiting that is 409 instructions in a `Wheel` of the thread's own, which nobody
//! would turn; 455 in one that threads share under a lock; 754 in a `WheelTimer`, which owns one.
//! Arming and disarming a flight is 27, two of them locked, on a line of the thread's own, and the
//! deadline is exact to the clock. What pays for it is the look over all flights that were ever under
//! way at the same time, once per deadline that is reached. The bench suite `isolate` has the table
//! in nanoseconds ("a timeout that is not needed"). What a call is told by, a word and a token, has to
//! be found for it in either way, and is in none of these figures.
//!
//! # Invariants
//!
//! * The thread wakes at the earliest deadline or before: whoever arms an earlier one than the
//!   thread sleeps towards wakes it.
//! * A flight is idle, or used by one call; the timer only ever expires the call that it looked at.
//! * The thread runs and drops nothing of the user's: it decides, wakes callers that wait, and hands
//!   the rest to the threads of the command that it concerns ([`Aside`]).
//! * Nothing of the user's runs under a lock.

mod aside;
mod flights;
mod handle;
mod pause;
mod tasks;
mod timer_thread;

pub(crate) use self::aside::Aside;
pub(crate) use self::handle::{Alarms, AsideHandle};
pub(crate) use self::pause::{Pause, WakerSlot};
pub(crate) use self::tasks::AlarmId;

#[cfg(test)]
mod tests;
