//! The two lanes into a loop, and the word that says whether the loop sleeps.
//!
//! * [`task`]: [`TaskLane`](crate::TaskLane), what users submit. Bounded; a full or closed lane
//!   gives the task back. `task::chunk` is a run of its slots.
//! * [`signal`]: [`SignalLane`](crate::SignalLane), what was accepted earlier and only has to be
//!   told. Never full.
//! * [`doorbell`]: [`Doorbell`](crate::Doorbell), one word for both, so that a sleeping loop is
//!   woken once, not per push. It knows neither lane.
//!
//! The README beside this file walks through the races by name.
#![expect(
    unsafe_code,
    reason = "slots of a lane are written by one thread and read by another"
)]

pub(crate) mod doorbell;
pub(crate) mod signal;
pub(crate) mod task;
