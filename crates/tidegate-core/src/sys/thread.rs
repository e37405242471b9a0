//! System functions for the calling thread: its id, its CPU time, its CPUs, its priority.
//!
//! Linux only; on other systems the functions report that nothing was done.

/// Returns the system's id of the calling thread; 0 on systems other than Linux.
pub(crate) fn thread_id() -> u64 {
    #[cfg(target_os = "linux")]
    {
        // By its number, because older C libraries have no function for it.
        // SAFETY: it has no arguments, cannot fail and accesses no memory.
        unsafe { libc::syscall(libc::SYS_gettid) as u64 }
    }
    #[cfg(not(target_os = "linux"))]
    {
        0
    }
}

/// Returns the CPU time that the calling thread has used; zero where the system does not report it.
pub fn thread_cpu_time() -> std::time::Duration {
    std::time::Duration::from_nanos(super::tick::of_thread())
}

/// Binds the calling thread to `cpus`. Returns `true` if the system did so.
pub(crate) fn set_affinity(cpus: &[usize]) -> bool {
    #[cfg(target_os = "linux")]
    {
        // A `cpu_set_t`: one bit for each CPU, in words of the C type `long`.
        const WORD: usize = libc::c_ulong::BITS as usize;
        let mut set: [libc::c_ulong; 1024 / WORD] = [0; 1024 / WORD];
        for &cpu in cpus {
            if let Some(word) = set.get_mut(cpu / WORD) {
                *word |= 1 << (cpu % WORD);
            }
        }
        // SAFETY: reads as many bytes as `set` has; 0 stands for the calling thread.
        unsafe { libc::sched_setaffinity(0, size_of_val(&set), set.as_ptr().cast()) == 0 }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = cpus;
        false
    }
}

/// Sets the calling thread's priority, from 1 to 10 with 5 as normal. Returns `true` if the system
/// did so. A priority above normal usually requires privileges.
pub(crate) fn set_priority(priority: u8) -> bool {
    #[cfg(target_os = "linux")]
    {
        // A nice value counts the other way, four steps per priority: 1 is 16, 10 is -20.
        let nice = (5 - i32::from(priority)) * 4;
        let thread = thread_id() as libc::id_t;
        // SAFETY: takes numbers only. For a wrong number it returns an error.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, thread, nice) == 0 }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = priority;
        false
    }
}

/// Returns how many CPUs the calling thread may run on.
pub fn usable_cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
