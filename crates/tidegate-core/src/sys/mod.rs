//! Access to the operating system and the processor, one file per mechanism.
//!
//! * [`futex`]: sleeping on a word until it changes.
//! * [`thread`]: ids, CPU time, priority and CPUs of threads.
//! * [`backtrace`]: the stack of another thread.
//! * [`tick`], [`cycles`]: cheap clocks, of the system and of the processor.
//! * [`prefetch`]: fetching memory into the cache before it is needed.
//! * [`prim`]: atomics, locks and threads. A program gets std's, a model gets loom's or shuttle's.
//!
//! Each file offers the same functions on every system. Where a system lacks the mechanism, the
//! function reports that or does nothing, as its documentation says.
#![cfg_attr(
    any(target_os = "linux", target_arch = "x86_64"),
    expect(
        unsafe_code,
        reason = "calls of the system, and instructions of the processor"
    )
)]

pub(crate) mod backtrace;
pub(crate) mod cycles;
pub(crate) mod futex;
pub(crate) mod prefetch;
pub mod prim;
pub(crate) mod thread;
pub(crate) mod tick;
