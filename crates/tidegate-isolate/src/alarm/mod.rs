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
//! Tasks wait in a `Heap` of `tidegate-timer`; "Four engines" in the header of that crate says why
//! calls wait in no wheel.
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
