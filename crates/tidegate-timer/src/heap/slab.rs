//! Values in numbered slots. Each slot has a generation, which tells stale keys from valid ones.
//!
//! # Invariants
//!
//! * A slot is live (it has a value), vacant (on the free list) or retired (neither, forever).
//! * A pair (slot, generation) is assigned to one value only. The generation of a slot is
//!   incremented each time its value leaves. A slot that is created after others were returned to
//!   the allocator starts at `floor`, which is not below the generation of any returned slot.
//! * `live` is the number of live slots.

use crate::key::{Generation, MAX_RETURNED_GENERATION, RETIRED_GENERATION, TimerKey};

/// Capacity for this many entries is never returned to the allocator.
pub(super) const MIN_CAPACITY: usize = 64;

/// Marks the end of the free list. Because of it there are at most 2³² - 1 slots.
const NONE: u32 = u32::MAX;

/// Returns the capacity to keep for an array of `len` entries when memory is returned.
pub(super) fn roomy(len: usize) -> usize {
    (len * 2).max(MIN_CAPACITY)
}

/// Slots for values, with a free list of the vacant ones.
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<Slot<T>>,
    /// The first vacant slot, or `NONE`. Last in, first out; a trim rebuilds the list in ascending
    /// order, so that new values fill the front and the tail can become empty.
    free: u32,
    live: usize,
    /// The generation of a newly created slot.
    floor: Generation,
    /// The number of values taken since the last trim. They pay for the cost of the next one.
    taken: usize,
    /// The number of live slots at the last trim; the maximum if slots were created since then.
    trimmed_at: usize,
}

#[derive(Debug)]
struct Slot<T> {
    /// The generation of the current value, or of the next value while the slot is vacant.
    generation: Generation,
    /// Live: the position of its item in the heap. Vacant: the next vacant slot, or `NONE`.
    link: u32,
    value: Option<T>,
}

impl<T> Slab<T> {
    pub(super) const fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: NONE,
            live: 0,
            floor: Generation::MIN,
            taken: 0,
            trimmed_at: usize::MAX,
        }
    }

    /// Stores a value whose item is at `position`, and returns its key.
    pub(super) fn insert(&mut self, value: T, position: usize) -> TimerKey {
        if self.free == NONE {
            self.grow();
        }
        let index = self.free;
        let slot = &mut self.slots[index as usize];
        self.free = slot.link;
        slot.link = position as u32;
        slot.value = Some(value);
        self.live += 1;
        TimerKey {
            slot: index,
            generation: slot.generation,
        }
    }

    /// Removes the value from a live slot. Its key is stale from now on.
    pub(super) fn take(&mut self, index: u32) -> T {
        let slot = &mut self.slots[index as usize];
        let value = slot.value.take().expect("an item names a live slot");
        self.live -= 1;
        self.taken += 1;
        slot.generation = slot.generation.saturating_add(1);
        if slot.is_vacant() {
            slot.link = self.free;
            self.free = index;
        }
        value
    }

    /// Records the new position of a live slot's item.
    pub(super) fn set_position(&mut self, index: u32, position: usize) {
        self.slots[index as usize].link = position as u32;
    }

    pub(super) fn position(&self, key: TimerKey) -> Option<usize> {
        self.live_slot(key).map(|slot| slot.link as usize)
    }

    pub(super) fn get(&self, key: TimerKey) -> Option<&T> {
        self.live_slot(key)?.value.as_ref()
    }

    /// Returns the value of a live slot.
    pub(super) fn value(&self, index: u32) -> &T {
        let value = self.slots[index as usize].value.as_ref();
        value.expect("an item names a live slot")
    }

    /// Returns `true` if most of the memory is unused and enough has changed since the last trim.
    pub(super) fn is_worth_trimming(&self) -> bool {
        self.slots.capacity() > MIN_CAPACITY
            && self.live <= self.slots.capacity() / 4
            && (self.live < self.trimmed_at.div_ceil(4) || self.taken >= self.slots.len())
    }

    /// Returns the slots after the last live one to the allocator, and rebuilds the free list in
    /// ascending order.
    pub(super) fn trim(&mut self) {
        while let Some(last) = self.slots.pop_if(|slot| slot.can_be_given_back()) {
            self.floor = self.floor.max(last.generation);
        }
        self.slots.shrink_to(roomy(self.slots.len()));
        self.free = NONE;
        for (index, slot) in self.slots.iter_mut().enumerate().rev() {
            if slot.is_vacant() {
                slot.link = self.free;
                self.free = index as u32;
            }
        }
        self.taken = 0;
        self.trimmed_at = self.live;
    }

    /// Sets the generation of a slot, as if that many values had used it.
    #[cfg(test)]
    pub(super) fn age(&mut self, index: u32, generation: Generation) {
        self.slots[index as usize].generation = generation;
    }

    /// Returns the number of slots and the capacity.
    #[cfg(test)]
    pub(super) fn size(&self) -> (usize, usize) {
        (self.slots.len(), self.slots.capacity())
    }

    #[cfg(test)]
    pub(super) fn position_of(&self, index: u32) -> Option<usize> {
        let slot = &self.slots[index as usize];
        slot.value.as_ref().map(|_| slot.link as usize)
    }

    /// Checks the invariants of the header against the number of items.
    #[cfg(test)]
    pub(super) fn check(&self, items: usize) {
        let live = self.slots.iter().filter(|slot| slot.value.is_some());
        assert_eq!((self.live, live.count()), (items, items));
        let mut chained = 0;
        let mut next = self.free;
        while next != NONE {
            let slot = &self.slots[next as usize];
            assert!(slot.is_vacant(), "the free list names a vacant slot");
            chained += 1;
            assert!(chained <= self.slots.len(), "the free list has an end");
            next = slot.link;
        }
        let vacant = self.slots.iter().filter(|slot| slot.is_vacant());
        assert_eq!(vacant.count(), chained, "every vacant slot is on the list");
    }

    fn live_slot(&self, key: TimerKey) -> Option<&Slot<T>> {
        let slot = self.slots.get(key.slot as usize)?;
        (slot.generation == key.generation && slot.value.is_some()).then_some(slot)
    }

    /// Creates one vacant slot. The free list must be empty.
    fn grow(&mut self) {
        let index = u32::try_from(self.slots.len()).unwrap_or(NONE);
        assert!(index != NONE, "a heap holds at most 2^32 - 1 entries");
        self.slots.push(Slot {
            generation: self.floor,
            link: NONE,
            value: None,
        });
        self.free = index;
        self.trimmed_at = usize::MAX;
    }
}

impl<T> Slot<T> {
    /// Returns `true` if the slot can take a value: it is empty and has a generation left.
    fn is_vacant(&self) -> bool {
        self.value.is_none() && self.generation != RETIRED_GENERATION
    }

    /// Returns `true` if the slot is empty and its generation is low enough to be recorded in
    /// `floor`.
    fn can_be_given_back(&self) -> bool {
        self.value.is_none() && self.generation <= MAX_RETURNED_GENERATION
    }
}
