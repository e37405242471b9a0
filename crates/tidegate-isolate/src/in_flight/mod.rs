//! Calls in flight: the data that a caller, a worker and the timer share during a call.
//!
//! `call_word` decides which of them ends the call. `entry_word` records that the holder of an
//! entry has reported how its call ended, `entry_watch` has what receives the events of an entry.
//! `flight` is a call slot: it adds the deadline, the cancel
//! token and the receiver of the timeout. The timer, which scans the call slots, and the commands,
//! whose calls use them, depend on this module.

pub(crate) mod call_word;
mod entry_watch;
pub(crate) mod entry_word;
mod flight;

pub(crate) use self::call_word::{SeenCall, WorkState};
pub(crate) use self::entry_watch::EntryWatch;
pub(crate) use self::entry_word::EntryWord;
pub(crate) use self::flight::{CallbackRunner, EntryTimeouts, ExpiredEntry, Flight, OnTimeout};
