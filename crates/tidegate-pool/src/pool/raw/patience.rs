//! How long a submitter waits for a worker that is busy, before it wakes one that sleeps.

/// How often a submitter looks whether a busy worker comes, before it wakes an idle one: waking
/// costs it a system call and the machine a context switch, a job that was nearly done a fraction
/// of a microsecond. Learned from whether somebody came.
#[derive(Debug)]
pub(super) struct Patience {
    looks: u32,
    /// Wakeups that were not put off since the last try.
    skipped: u32,
}

impl Patience {
    /// About a microsecond.
    const MOST: u32 = if cfg!(tidegate_loom) { 1 } else { 64 };
    const LEAST: u32 = if cfg!(tidegate_loom) { 1 } else { 8 };
    /// Wakeups between two tries.
    const REST: u32 = 32;

    pub(super) fn new() -> Self {
        // With one CPU nobody can come while the submitter looks.
        let alone = !cfg!(tidegate_loom) && tidegate_core::usable_cpus() == 1;
        Self {
            looks: if alone { 0 } else { Self::MOST },
            skipped: if alone { u32::MAX } else { 0 },
        }
    }

    /// Whether there never is any.
    pub(super) fn is_none(&self) -> bool {
        self.skipped == u32::MAX
    }

    pub(super) fn begin(&mut self) -> Option<u32> {
        if self.looks > 0 {
            return Some(self.looks);
        }
        self.skipped += 1;
        if self.skipped < Self::REST {
            return None;
        }
        self.skipped = 0;
        Some(Self::MOST)
    }

    pub(super) fn has_paid(&mut self) {
        self.looks = (self.looks * 2).clamp(Self::LEAST, Self::MOST);
    }

    pub(super) fn was_in_vain(&mut self) {
        self.looks /= 2;
        if self.looks < Self::LEAST {
            self.looks = 0;
        }
    }
}
