//! What is read of a pool without its lock: how much room it has, how long a thread may be idle, and
//! how many threads waits may rely on.

use std::sync::atomic::Ordering;

use tidegate_core::{WaitRefused, as_nanos, change_width};

use crate::pool::headroom::{Headroom, Room};
use crate::pool::limits::PoolLimits;
use crate::pool::raw::Tally;

use super::shared::{Shared, room_word};

impl Shared {
    /// Returns how many threads and jobs there are.
    pub(crate) fn tally(&self) -> Tally {
        self.desk.tally()
    }

    /// Shows the limits to whoever looks without the lock. Called with the lock held.
    pub(super) fn show(&self, limits: &PoolLimits) {
        self.room.store(room_word(limits), Ordering::Relaxed);
        let keep_alive = as_nanos(limits.keep_alive);
        self.keep_alive.store(keep_alive, Ordering::Relaxed);
    }

    pub(super) fn show_no_room(&self) {
        self.room.store(0, Ordering::Relaxed);
    }

    /// Changes how many threads waits may rely on. Called with the lock held.
    ///
    /// # Errors
    ///
    /// The circle, when waits that go on rely on more; nothing is changed.
    pub(super) fn set_width(&self, limits: &PoolLimits, leased: usize) -> Result<(), WaitRefused> {
        let width = limits.width(leased);
        change_width(self.id, width, || {
            self.width.store(width, Ordering::Relaxed);
        })
    }

    /// Nanoseconds that a thread above the core size may be idle; 0 means for ever.
    pub(super) fn keep_alive(&self) -> u64 {
        self.keep_alive.load(Ordering::Relaxed)
    }

    /// Returns `true` if jobs may wait in a queue.
    pub(super) fn has_queue(&self) -> bool {
        self.room.load(Ordering::Relaxed) as u32 != 0
    }

    /// Keeps one more, or one less, of the threads out of the room.
    pub(crate) fn keep_for_lessee(&self, one_more: bool) {
        if one_more {
            self.kept.fetch_add(1, Ordering::Relaxed);
        } else {
            self.kept.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Headroom for Shared {
    fn room(&self) -> Room {
        let word = self.room.load(Ordering::Relaxed);
        let (max, bound) = ((word >> 32) as usize, word as u32 as usize);
        if max == 0 {
            return Room::default();
        }
        let tally = self.desk.tally();
        let idle = tally.idle + self.desk.reserve().available();
        let may_start = max.saturating_sub(tally.threads);
        let kept = self.kept.load(Ordering::Relaxed);
        Room {
            idle: idle.saturating_sub(tally.queued + kept.saturating_sub(may_start)),
            may_start: may_start.saturating_sub(kept),
            places: bound.saturating_sub(tally.queued),
        }
    }

    fn has_thread(&self) -> bool {
        let max = (self.room.load(Ordering::Relaxed) >> 32) as usize;
        let tally = self.desk.tally();
        match max {
            0 => false,
            _ if self.kept.load(Ordering::Relaxed) > 0 => self.room().has_thread(),
            max if max > tally.threads => true,
            // Jobs wait: how many threads are left over takes counting.
            _ if tally.queued > 0 => self.room().idle > 0,
            _ => tally.idle > 0 || self.desk.reserve().has_any(),
        }
    }

    fn moves(&self) -> u64 {
        self.desk.moves()
    }

    fn waiting(&self) -> usize {
        self.desk.tally().queued
    }
}
