//! System functions for the calling thread: its id, its CPU time, its CPUs, its priority.
//!
//! Linux only; on other systems the functions report that nothing was done.

/// Returns the system's id of the calling thread; 0 on systems other than Linux.
pub(crate) fn thread_id() -> u64 {
    #[cfg(target_os = "linux")]
    {
        rustix::thread::gettid().as_raw_nonzero().get() as u64
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
        use rustix::thread::{CpuSet, sched_setaffinity};
        let mut set = CpuSet::new();
        for &cpu in cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU) {
            set.set(cpu);
        }
        sched_setaffinity(None, &set).is_ok()
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
        let thread = Some(rustix::thread::gettid());
        rustix::process::setpriority_process(thread, nice).is_ok()
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
