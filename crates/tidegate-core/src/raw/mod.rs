//! The types whose inside is unsafe code and that every crate shares.
//!
//! * [`signal`]: a reference to a heap block on its way to an executor.
//! * [`owner`]: a value that one executor owns and others may hold.
//! * [`vtable`]: what is known of a task's closure.
//! * [`running`]: what a thread runs now, readable from other threads.
//! * [`task`]: a closure in four words. A task with a name shows it in `running`.
//!
//! Each knows only those before it.
#![expect(
    unsafe_code,
    reason = "values behind erased types, handed over by one word"
)]

pub(crate) mod owner;
pub(crate) mod running;
pub(crate) mod signal;
pub(crate) mod task;
pub(crate) mod vtable;
