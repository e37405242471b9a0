//! The system's clock as of its last tick: reading it is a few loads, without a counter.

#[cfg(all(target_os = "linux", not(miri)))]
mod linux {
    use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};

    /// The time at the last tick, in nanoseconds of the system's monotonic clock.
    #[inline]
    pub(crate) fn coarse() -> u64 {
        nanos(clock_gettime(ClockId::MonotonicCoarse))
    }

    /// The time now, on the same scale.
    pub(crate) fn fine() -> u64 {
        nanos(clock_gettime(ClockId::Monotonic))
    }

    /// The time between two ticks; none where ticks tell no time.
    pub(crate) fn length() -> Option<u64> {
        Some(nanos(clock_getres(ClockId::MonotonicCoarse))).filter(|&length| length != 0)
    }

    #[inline]
    fn nanos(time: Timespec) -> u64 {
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

    pub(crate) fn length() -> Option<u64> {
        None
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) use self::linux::{coarse, fine, length};
#[cfg(not(all(target_os = "linux", not(miri))))]
pub(crate) use self::none::{coarse, fine, length};
