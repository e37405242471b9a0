//! The system's clock as of its last tick: reading it is a few loads, without a counter. And the
//! CPU time of a thread.
//!
//! By way of the C library and not of rustix: that looks for the kernel's functions by itself, and
//! falls where a debugger such as valgrind has hidden them.

#[cfg(all(target_os = "linux", not(miri)))]
mod linux {
    use libc::{
        CLOCK_MONOTONIC, CLOCK_MONOTONIC_COARSE, CLOCK_THREAD_CPUTIME_ID, clockid_t, timespec,
    };

    /// The time at the last tick, in nanoseconds of the system's monotonic clock.
    #[inline]
    pub(crate) fn coarse() -> u64 {
        now(CLOCK_MONOTONIC_COARSE)
    }

    /// The time now, on the same scale.
    pub(crate) fn fine() -> u64 {
        now(CLOCK_MONOTONIC)
    }

    /// The CPU time that the calling thread has used, in nanoseconds.
    pub(crate) fn of_thread() -> u64 {
        now(CLOCK_THREAD_CPUTIME_ID)
    }

    /// The time between two ticks; none where ticks tell no time.
    pub(crate) fn length() -> Option<u64> {
        let mut time = ZERO;
        // SAFETY: writes one `timespec` to where it may, and answers 0 if it did.
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
        // SAFETY: writes one `timespec` to where it may. It fails for clocks that do not exist:
        // whoever asks for a coarse one has seen that it has a length.
        unsafe { libc::clock_gettime(clock, &mut time) };
        nanos(time)
    }

    #[inline]
    fn nanos(time: timespec) -> u64 {
        (time.tv_sec as u64) * 1_000_000_000 + time.tv_nsec as u64
    }
}

/// Systems without such a clock.
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
