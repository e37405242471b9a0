//! What the operating system and the processor are asked for, one file per mechanism.
//!
//! * [`futex`]: sleeping on a word until it changes.
//! * [`thread`]: ids, CPU time, priority and CPUs of threads.
//! * [`backtrace`]: the stack of another thread.
//! * [`tick`], [`cycles`]: cheap clocks, of the system and of the processor.
//! * [`prefetch`]: asking for memory before it is needed.
//!
//! Each file offers the same functions everywhere; where a system lacks the mechanism, the
//! function says so or does nothing, and its documentation says which.
#![expect(
    unsafe_code,
    reason = "calls of the system, and instructions of the processor"
)]

pub(crate) mod backtrace;
pub(crate) mod cycles;
pub(crate) mod futex;
pub(crate) mod prefetch;
pub(crate) mod thread;
pub(crate) mod tick;
