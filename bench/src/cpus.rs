//! CPU affinity of threads.

use rustix::thread::{CpuSet, sched_setaffinity};

/// Binds the calling thread, and the threads that it starts afterwards, to one CPU.
///
/// # Errors
///
/// Returns an error if there is no such CPU, or if the system does not allow it.
pub(crate) fn try_pin(cpu: usize) -> rustix::io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)
}

/// Like [`try_pin`], but ignores a failure; the figures then show it.
pub(crate) fn pin(cpu: usize) {
    let _ = try_pin(cpu);
}

/// Allows the calling thread, and the threads that it starts, any CPU again.
pub(crate) fn unpin() {
    let mut set = CpuSet::new();
    for cpu in 0..CpuSet::MAX_CPU {
        set.set(cpu);
    }
    // The kernel ignores CPUs that do not exist.
    let _ = sched_setaffinity(None, &set);
}
