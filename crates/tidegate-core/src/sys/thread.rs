//! What the system can do for the calling thread: its id, its CPUs, its priority.
//!
//! Linux only; elsewhere the functions answer that nothing was done.

/// The system's id of the calling thread; 0 where it has none to tell.
pub fn thread_id() -> u64 {
    #[cfg(target_os = "linux")]
    {
        rustix::thread::gettid().as_raw_nonzero().get() as u64
    }
    #[cfg(not(target_os = "linux"))]
    {
        0
    }
}

/// CPU time that the calling thread has used; zero where the system does not tell.
pub fn thread_cpu_time() -> std::time::Duration {
    std::time::Duration::from_nanos(super::tick::of_thread())
}

/// Binds the calling thread to `cpus`; returns whether the system did so.
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

/// Gives the calling thread a priority from 1 to 10, 5 being normal; returns whether the
/// system did so. More than normal usually takes privileges.
pub(crate) fn set_priority(priority: u8) -> bool {
    #[cfg(target_os = "linux")]
    {
        // A nice value counts the other way and four steps at a time: 1 is 16, 10 is -20.
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

/// How many CPUs the calling thread may run on.
pub fn usable_cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
