//! The two lanes into a loop, and the doorbell that wakes a sleeping loop. A lane is a queue with
//! many producers and the loop as its only consumer.
//!
//! * [`task`]: [`TaskLane`](crate::lane::task::TaskLane), for tasks that users submit. It is
//!   bounded; a full or closed lane returns the task. `task::chunk` is an array of its slots.
//! * [`signal`]: [`SignalLane`](crate::lane::signal::SignalLane), for notifications about work that
//!   was accepted earlier. It is never full.
//! * [`doorbell`]: [`Doorbell`](crate::lane::doorbell::Doorbell), one word for both lanes, so that
//!   a sleeping loop is woken once, not once per push. It depends on neither lane.
//!
//! The README beside this file explains the races one by one.
#![expect(
    unsafe_code,
    reason = "slots of a lane are written by one thread and read by another"
)]

pub(crate) mod doorbell;
pub(crate) mod signal;
pub(crate) mod task;
