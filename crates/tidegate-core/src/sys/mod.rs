//! What the operating system is asked for, one file per mechanism.
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
