//! What the operating system is asked for, one file per mechanism.
//!
//! Each file offers the same functions everywhere; where a system lacks the mechanism, the
//! function says so or does nothing, and its documentation says which.

#[cfg(not(tidegate_loom))]
pub(crate) mod backtrace;
pub(crate) mod futex;
#[cfg(not(tidegate_loom))]
pub(crate) mod thread;
