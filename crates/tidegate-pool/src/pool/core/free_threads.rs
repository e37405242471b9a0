//! Values of a pool that are read without its lock: the free threads and free queue places, the
//! idle timeout of a thread, and the width. The width is the number of threads on which waiting
//! jobs may rely.

use std::sync::atomic::Ordering;

use tidegate_core::WaitRefusedError;
use tidegate_core::internal::{as_nanos, change_width};

use crate::pool::headroom::{FreeThreads, Headroom};
use crate::pool::limits::PoolLimits;
use crate::pool::raw::DispatchCounts;

use super::shared::{Shared, room_word};

impl Shared {
    /// Returns the numbers of threads and jobs.
    pub(crate) fn tally(&self) -> DispatchCounts {
        self.dispatcher.tally()
    }

    /// Publishes the limits for readers that do not take the lock. Called with the lock held.
    pub(super) fn show(&self, limits: &PoolLimits) {
        self.room.store(room_word(limits), Ordering::Relaxed);
        let keep_alive = as_nanos(limits.keep_alive);
        self.keep_alive.store(keep_alive, Ordering::Relaxed);
    }

    pub(super) fn show_no_room(&self) {
        self.room.store(0, Ordering::Relaxed);
    }

    /// Sets the width: the number of threads on which waiting jobs may rely. Called with the lock
    /// held.
    ///
    /// # Errors
    ///
    /// Returns the cycle of waits if the current waits need more threads than the new width. The
    /// width is not changed then.
    pub(super) fn set_width(
        &self,
        limits: &PoolLimits,
        leased: usize,
    ) -> Result<(), WaitRefusedError> {
        let width = limits.width(leased);
        change_width(self.id, width, limits.max, || {
            self.width.store(width, Ordering::Relaxed);
            self.most.store(limits.max, Ordering::Relaxed);
        })
    }

    /// Narrows the width for waits to `threads`, because no other thread could be started. Returns
    /// `false` and changes nothing if the current waits need more.
    pub(super) fn narrow_width(&self, threads: usize) -> bool {
        let width = self.width.load(Ordering::Relaxed).min(threads);
        let narrowed = change_width(self.id, width, threads, || {
            self.width.store(width, Ordering::Relaxed);
            self.most.store(threads, Ordering::Relaxed);
        });
        narrowed.is_ok()
    }

    /// Widens the width for waits to all threads again, because one could be started. Called with the
    /// lock held.
    pub(super) fn widen_width(&self, limits: &PoolLimits, leased: usize) {
        let (width, most) = (&self.width, &self.most);
        if width.load(Ordering::Relaxed) < limits.width(leased)
            || most.load(Ordering::Relaxed) < limits.max
        {
            // More threads are never too few.
            let _ = self.set_width(limits, leased);
        }
    }

    /// Returns how long a thread above the core size may be idle, in nanoseconds; 0 means for ever.
    pub(super) fn keep_alive(&self) -> u64 {
        self.keep_alive.load(Ordering::Relaxed)
    }

    /// Returns `true` if jobs may wait in a queue.
    pub(super) fn has_queue(&self) -> bool {
        self.room.load(Ordering::Relaxed) as u32 != 0
    }

    /// Counts one more, or one less, leased thread that its lease holder does not use. These
    /// threads are subtracted from the free threads, because the lease holder will need them.
    pub(crate) fn reserve_for_lease(&self, acquired: bool) {
        if acquired {
            self.kept.fetch_add(1, Ordering::Relaxed);
        } else {
            self.kept.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Headroom for Shared {
    fn free_threads(&self) -> FreeThreads {
        let word = self.room.load(Ordering::Relaxed);
        let (max, bound) = ((word >> 32) as usize, word as u32 as usize);
        if max == 0 {
            return FreeThreads::default();
        }
        let tally = self.dispatcher.tally();
        let idle = tally.idle + self.dispatcher.reserve().available();
        let may_start = max.saturating_sub(tally.threads);
        let kept = self.kept.load(Ordering::Relaxed);
        FreeThreads {
            idle: idle.saturating_sub(tally.queued + kept.saturating_sub(may_start)),
            may_start: may_start.saturating_sub(kept),
            places: bound.saturating_sub(tally.queued),
        }
    }

    fn has_thread(&self) -> bool {
        let max = (self.room.load(Ordering::Relaxed) >> 32) as usize;
        let tally = self.dispatcher.tally();
        match max {
            0 => false,
            _ if self.kept.load(Ordering::Relaxed) > 0 => self.free_threads().has_thread(),
            max if max > tally.threads => true,
            // The queued jobs will take idle threads, so only the full computation is exact.
            _ if tally.queued > 0 => self.free_threads().idle > 0,
            _ => tally.idle > 0 || self.dispatcher.reserve().has_any(),
        }
    }

    fn finished_jobs(&self) -> u64 {
        self.dispatcher.finished_jobs()
    }

    fn waiting(&self) -> usize {
        self.dispatcher.tally().queued
    }
}
