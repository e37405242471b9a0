//! The system's clock as of its last tick, whose reading is a few loads without a counter; and the
//! CPU time of a thread.
//!
//! This uses the functions of the C library, which work where a tool such as valgrind has hidden the
//! kernel's.

#[cfg(all(target_os = "linux", not(miri)))]
mod linux {
    use libc::{
        CLOCK_MONOTONIC, CLOCK_MONOTONIC_COARSE, CLOCK_THREAD_CPUTIME_ID, clockid_t, timespec,
    };

    /// Returns the time at the last tick, in nanoseconds of the system's monotonic clock.
    #[inline]
    pub(crate) fn coarse() -> u64 {
        now(CLOCK_MONOTONIC_COARSE)
    }

    /// Returns the time now, on the same scale.
    pub(crate) fn fine() -> u64 {
        now(CLOCK_MONOTONIC)
    }

    /// Returns the CPU time that the calling thread has used, in nanoseconds.
    pub(crate) fn of_thread() -> u64 {
        now(CLOCK_THREAD_CPUTIME_ID)
    }

    /// Returns the time between two ticks; `None` if the system has no coarse clock.
    pub(crate) fn length() -> Option<u64> {
        let mut time = ZERO;
        // SAFETY: writes one `timespec` to a variable that can hold it, and returns 0 on success.
        let answer = unsafe { libc::clock_getres(CLOCK_MONOTONIC_COARSE, &mut time) };
        Some(nanos(time)).filter(|&length| answer == 0 && length != 0)
    }

    const ZERO: timespec = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };

    #[inline]
    fn now(clock: clockid_t) -> u64 {
        let mut time = ZERO;
        // SAFETY: writes one `timespec` to a variable that can hold it. It fails for clocks that do
        // not exist: a caller of `coarse` has seen that `length` is not `None`.
        unsafe { libc::clock_gettime(clock, &mut time) };
        nanos(time)
    }

    #[inline]
    fn nanos(time: timespec) -> u64 {
        (time.tv_sec as u64) * 1_000_000_000 + time.tv_nsec as u64
    }
}

/// For systems without such a clock.
#[cfg(not(all(target_os = "linux", not(miri))))]
mod none {
    pub(crate) fn coarse() -> u64 {
        0
    }

    pub(crate) fn fine() -> u64 {
        0
    }

    pub(crate) fn of_thread() -> u64 {
        0
    }

    pub(crate) fn length() -> Option<u64> {
        None
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) use self::linux::{coarse, fine, length, of_thread};
#[cfg(not(all(target_os = "linux", not(miri))))]
pub(crate) use self::none::{coarse, fine, length, of_thread};
