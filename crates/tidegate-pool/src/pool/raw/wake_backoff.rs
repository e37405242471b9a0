//! The back-off of a submitter: how long it waits for a busy worker before it wakes a sleeping one.

/// How long a submitter spins until a busy worker takes its job, before it wakes an idle worker. A
/// wake-up costs the submitter a system call and the machine a context switch. Waiting for a job that
/// is nearly done costs a fraction of a microsecond. The number of spins is learned from whether a
/// worker came.
#[derive(Debug)]
pub(super) struct WakeBackoff {
    spins: u32,
    /// Wake-ups that were not deferred since the last attempt.
    skipped: u32,
}

impl WakeBackoff {
    /// About a microsecond.
    const MAX_SPINS: u32 = if cfg!(tidegate_loom) { 1 } else { 64 };
    const MIN_SPINS: u32 = if cfg!(tidegate_loom) { 1 } else { 8 };
    /// Wake-ups between two attempts.
    const REST: u32 = 32;

    pub(super) fn new() -> Self {
        Self::for_cpus(tidegate_core::internal::usable_cpus())
    }

    pub(super) fn for_cpus(cpus: usize) -> Self {
        // With one CPU, no worker can run while the submitter spins.
        let single_cpu = !cfg!(tidegate_loom) && cpus == 1;
        Self {
            spins: if single_cpu { 0 } else { Self::MAX_SPINS },
            skipped: if single_cpu { u32::MAX } else { 0 },
        }
    }

    /// Returns `true` if wake-ups are never deferred.
    pub(super) fn is_none(&self) -> bool {
        self.skipped == u32::MAX
    }

    pub(super) fn begin(&mut self) -> Option<u32> {
        if self.spins > 0 {
            return Some(self.spins);
        }
        self.skipped += 1;
        if self.skipped < Self::REST {
            return None;
        }
        self.skipped = 0;
        Some(Self::MAX_SPINS)
    }

    pub(super) fn has_paid(&mut self) {
        self.spins = (self.spins * 2).clamp(Self::MIN_SPINS, Self::MAX_SPINS);
    }

    pub(super) fn was_in_vain(&mut self) {
        self.spins /= 2;
        if self.spins < Self::MIN_SPINS {
            self.spins = 0;
        }
    }
}
