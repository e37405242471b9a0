//! The processor's cycle counter, where it can serve as a clock.

/// Whether the counter ticks evenly, in step on all processors. On Linux the kernel watches it,
/// and says so by using it as its own clock source. Elsewhere the answer is no.
pub(crate) fn is_steady() -> bool {
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    cfg!(all(target_arch = "x86_64", target_os = "linux", not(miri)))
        && std::fs::read_to_string(SOURCE).is_ok_and(|source| source.trim() == "tsc")
}

/// Cycles since some moment; 0 where there is no counter.
#[inline(always)]
pub(crate) fn now() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // SAFETY: reads a register that every x86-64 processor has; Linux lets programs read it
        // unless a process asked for the contrary, and then the process dies at once, by its own
        // wish.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    0
}
