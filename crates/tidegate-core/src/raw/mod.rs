//! Types that every crate shares and whose implementation is unsafe code.
//!
//! * [`by_value`]: a value that can only be moved out, and is therefore `Sync`.
//! * [`signal`]: a reference to a heap block, on its way to an executor.
//! * [`owner`]: a cell for a boxed value that one thread at a time can take and own.
//! * `home`: a cell for a value that only one thread reads. Not under loom, whose threads are one.
//! * [`vtable`]: the type information of a task's closure.
//! * [`running`]: the task that a thread runs now, readable from other threads.
//! * [`task`]: a closure in four words. A task with a name shows it in `running`.
//! * `working`: the tasks with a promise that a thread runs.
//!
//! Each module uses only the modules listed before it.
#![expect(
    unsafe_code,
    reason = "values behind erased types, handed over by one word"
)]

pub(crate) mod by_value;
#[cfg(not(tidegate_loom))]
pub(crate) mod home;
pub(crate) mod owner;
pub(crate) mod running;
pub(crate) mod signal;
pub(crate) mod task;
pub(crate) mod vtable;
pub(crate) mod working;
