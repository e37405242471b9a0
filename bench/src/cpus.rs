//! Which CPUs threads may run on.

use rustix::thread::{CpuSet, sched_setaffinity};

/// Binds the calling thread, and those that it starts afterwards, to one CPU.
///
/// # Errors
///
/// There is no such CPU, or the system does not allow it.
pub(crate) fn try_pin(cpu: usize) -> rustix::io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)
}

/// The same, where it is possible; elsewhere the figures show that it is not.
pub(crate) fn pin(cpu: usize) {
    let _ = try_pin(cpu);
}

/// Lets the calling thread, and those that it starts, run on any CPU again.
pub(crate) fn unpin() {
    let mut set = CpuSet::new();
    for cpu in 0..CpuSet::MAX_CPU {
        set.set(cpu);
    }
    // The system takes those of them that there are.
    let _ = sched_setaffinity(None, &set);
}
