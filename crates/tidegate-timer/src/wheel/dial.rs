//! Which entry hangs where: the lists of all levels, as seen from the tick that the wheel is at.

use super::geometry::Geometry;
use super::lists::Lists;

#[derive(Debug)]
pub(super) struct Dial {
    pub(super) geometry: Geometry,
    pub(super) lists: Lists,
    /// For each list above the first level, a tick not after any in it; exact until the entry
    /// that it came from is removed.
    earliest: Box<[u64]>,
    /// The tick up to which the lists were emptied.
    pub(super) current: u64,
}

impl Dial {
    pub(super) fn new(geometry: Geometry) -> Self {
        Self {
            geometry,
            lists: Lists::new(geometry.lists()),
            earliest: vec![0; geometry.lists() - geometry.slots()].into_boxed_slice(),
            current: 0,
        }
    }

    /// The list for a new entry that is told of after `seen`, and its deadline as it has to know
    /// it: one that has passed becomes the first moment of the next tick.
    #[inline]
    pub(super) fn list_for(&mut self, deadline: u64, seen: u64) -> (usize, u64) {
        let tick = self.geometry.tick_of(deadline);
        if tick > seen {
            return (self.list_to_be(tick), deadline);
        }
        self.list_for_past(seen)
    }

    #[cold]
    fn list_for_past(&mut self, seen: u64) -> (usize, u64) {
        let next = seen.saturating_add(1).min(self.geometry.last());
        let deadline = self.geometry.end_of(next - 1).saturating_add(1);
        (self.list_to_be(next), deadline)
    }

    /// The list that an entry of this deadline hangs in.
    #[inline]
    pub(super) fn list_at(&self, deadline: u64) -> usize {
        let tick = self.geometry.tick_of(deadline);
        if tick <= self.current {
            return self.lists.ripe();
        }
        self.geometry.list_of(tick, self.current)
    }

    /// The list for a tick, told that an entry of it comes.
    #[inline]
    pub(super) fn list_to_be(&mut self, tick: u64) -> usize {
        if tick <= self.current {
            return self.lists.ripe();
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

    /// The list that comes first, and its first tick.
    pub(super) fn first(&self) -> Option<(usize, u64)> {
        let list = self.lists.first()?;
        if list == self.lists.ripe() {
            return Some((list, self.current));
        }
        Some((list, self.geometry.start_of(list, self.current)))
    }

    /// The first tick with an entry. It may be early for a far one.
    pub(super) fn first_tick(&self) -> Option<u64> {
        let (list, start) = self.first()?;
        let upper = list.checked_sub(self.geometry.slots());
        let earliest = upper.and_then(|upper| self.earliest.get(upper));
        Some(earliest.copied().unwrap_or(start))
    }
}
