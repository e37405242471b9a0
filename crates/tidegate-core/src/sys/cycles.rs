//! The processor's cycle counter, where it can serve as a clock.

/// Returns `true` if the counter ticks evenly and in step on all processors. The Linux kernel
/// checks this and, if so, uses the counter as its own clock source. On other systems the result is
/// `false`.
pub(crate) fn is_steady() -> bool {
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    cfg!(all(target_arch = "x86_64", target_os = "linux", not(miri)))
        && std::fs::read_to_string(SOURCE).is_ok_and(|source| source.trim() == "tsc")
}

/// Returns the cycles since some fixed time; 0 where there is no counter.
#[inline(always)]
pub(crate) fn now() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // SAFETY: reads a register that every x86-64 processor has. Linux lets programs read it
        // unless the process has forbidden that itself; then the process is killed at once, as it
        // requested.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    0
}
