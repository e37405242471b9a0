//! Calls in flight: what a call, its worker and its timer share while it is under way.
//!
//! `call_word` decides which of them ends the call; `flight` adds its deadline, its token and what
//! hears that its time is over. Both are below the timer, which looks over the flights, and below
//! the commands, whose calls use them.

pub(crate) mod call_word;
mod flight;

pub(crate) use self::call_word::{Left, UnderWay};
pub(crate) use self::flight::{Callbacks, Expires, Flight};
