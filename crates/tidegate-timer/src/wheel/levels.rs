//! The lists of all levels of the wheel, relative to its current tick: which entry is in which
//! list.

use super::geometry::Geometry;
use super::lists::Lists;

#[derive(Debug)]
pub(super) struct WheelLevels {
    pub(super) geometry: Geometry,
    pub(super) lists: Lists,
    /// For each list above the first level, a tick that is not after the tick of any of its
    /// entries. It is exact until the entry that set it is removed.
    earliest: Box<[u64]>,
    /// The tick up to which the lists were emptied: the current tick.
    pub(super) current: u64,
}

impl WheelLevels {
    pub(super) fn new(geometry: Geometry) -> Self {
        Self {
            geometry,
            lists: Lists::new(geometry.lists()),
            earliest: vec![0; geometry.lists() - geometry.slots()].into_boxed_slice(),
            current: 0,
        }
    }

    /// Returns the list for a new entry, and the deadline to store in the entry. `seen` is the tick
    /// of the latest time that the owner has passed to the wheel. If the tick of the deadline is
    /// not after `seen`, the entry goes into the tick after `seen`, and the returned deadline is
    /// the first nanosecond of that tick.
    #[inline]
    pub(super) fn list_for(&mut self, deadline: u64, seen: u64) -> (usize, u64) {
        let tick = self.geometry.tick_of(deadline);
        if tick > seen {
            return (self.list_for_insert(tick), deadline);
        }
        self.list_for_past(seen)
    }

    #[cold]
    fn list_for_past(&mut self, seen: u64) -> (usize, u64) {
        let next = seen.saturating_add(1).min(self.geometry.last());
        let deadline = self.geometry.end_of(next - 1).saturating_add(1);
        (self.list_for_insert(next), deadline)
    }

    /// Returns the list that contains an entry of this deadline: the list of due entries if its
    /// tick is not after the current tick.
    #[inline]
    pub(super) fn list_at(&self, deadline: u64) -> usize {
        let tick = self.geometry.tick_of(deadline);
        if tick <= self.current {
            return self.lists.due_list();
        }
        self.geometry.list_of(tick, self.current)
    }

    /// Returns the list for a tick: the list of due entries if the tick is not after the current
    /// tick. Updates `earliest`, because the caller adds an entry of this tick to the list.
    #[inline]
    pub(super) fn list_for_insert(&mut self, tick: u64) -> usize {
        if tick <= self.current {
            return self.lists.due_list();
        }
        let list = self.geometry.list_of(tick, self.current);
        if let Some(upper) = list.checked_sub(self.geometry.slots()) {
            let earliest = &mut self.earliest[upper];
            if tick < *earliest || self.lists.is_empty(list) {
                *earliest = tick;
            }
        }
        list
    }

    /// Returns the first list that is not empty, and the first tick of its slot. For the list of
    /// due entries, the tick is the current tick.
    pub(super) fn first(&self) -> Option<(usize, u64)> {
        let list = self.lists.first()?;
        if list == self.lists.due_list() {
            return Some((list, self.current));
        }
        Some((list, self.geometry.start_of(list, self.current)))
    }

    /// Returns the first tick that has an entry. For a far list the result may be too early.
    pub(super) fn first_tick(&self) -> Option<u64> {
        let (list, start) = self.first()?;
        let upper = list.checked_sub(self.geometry.slots());
        let earliest = upper.and_then(|upper| self.earliest.get(upper));
        Some(earliest.copied().unwrap_or(start))
    }
}
