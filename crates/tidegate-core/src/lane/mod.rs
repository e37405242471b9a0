//! The two lanes into a loop, and the word that says whether the loop sleeps.
//!
//! * [`task`]: what users submit. Bounded; full or closed means the task comes back.
//! * [`signal`]: what was accepted earlier and only has to be told. Never full.
//! * [`doorbell`]: one word for both, so that a sleeping loop is woken once, not per push.
//!
//! The README beside this file walks through the races by name.
#![expect(
    unsafe_code,
    reason = "slots of a lane are written by one thread and read by another"
)]

pub(crate) mod doorbell;
pub(crate) mod signal;
pub(crate) mod task;
