//! Calls to the operating system: the handlers of signals. The only module with unsafe code.
//!
//! * [`signal`]: counts signals, and wakes the thread that waits for them.
#![expect(
    unsafe_code,
    reason = "the handlers of signals and of console events are calls of the system"
)]

pub(crate) mod signal;
