//! An entry of a wheel: one cell of its pages.

use tidegate_core::internal::prefetch;

use super::lists::Place;
use super::pages::{Cell, END, Pages};
use crate::key::{Generation, RETIRED_GENERATION};

/// Entries per page.
pub(super) const CELLS: usize = 512;

/// One entry: half a cache line with a value of two words, one line with a value of up to six
/// words.
#[derive(Debug)]
#[repr(align(32))]
pub(super) struct Entry<T>(pub(super) State<T>);

/// The state of a cell. The generation of a live entry is never zero; the compiler uses this niche
/// to distinguish the variants, so the tag takes no space.
#[derive(Debug)]
pub(super) enum State<T> {
    Live(Live<T>),
    Free {
        /// The generation of the next value.
        generation: u32,
        next: u16,
    },
}

#[derive(Debug)]
pub(super) struct Live<T> {
    pub(super) value: T,
    pub(super) deadline: u64,
    pub(super) place: Place,
    pub(super) generation: Generation,
}

impl<T> Cell for Entry<T> {
    fn free(generation: u32, next: u16) -> Self {
        Self(State::Free { generation, next })
    }

    #[inline]
    fn next_free(&self) -> u16 {
        match &self.0 {
            State::Free { next, .. } => *next,
            State::Live(_) => unreachable!("only a free cell is on the free list"),
        }
    }

    #[inline]
    fn link_free(&mut self, after: u16) -> bool {
        let State::Free { generation, next } = &mut self.0 else {
            unreachable!("only a vacated cell is put on the free list")
        };
        *next = after;
        *generation != RETIRED_GENERATION.get()
    }

    #[inline]
    fn generation(&self) -> u32 {
        match &self.0 {
            State::Free { generation, .. } => *generation,
            State::Live(live) => live.generation.get(),
        }
    }
}

impl<T> Entry<T> {
    /// Returns the generation of the next value of a free cell.
    #[inline]
    pub(super) fn next_generation(&self) -> Generation {
        Generation::new(self.generation()).expect("generations start at one")
    }

    #[inline]
    pub(super) fn live(&self) -> Option<&Live<T>> {
        match &self.0 {
            State::Live(live) => Some(live),
            State::Free { .. } => None,
        }
    }

    #[inline]
    pub(super) fn live_mut(&mut self) -> Option<&mut Live<T>> {
        match &mut self.0 {
            State::Live(live) => Some(live),
            State::Free { .. } => None,
        }
    }

    /// Returns `true` if the entry is live and stores this place.
    #[inline]
    pub(super) fn is_at(&self, place: Place) -> bool {
        self.live().is_some_and(|live| live.place == place)
    }

    /// Turns a free cell into a live one.
    #[inline]
    pub(super) fn fill(&mut self, live: Live<T>) {
        let before = std::mem::replace(&mut self.0, State::Live(live));
        debug_assert!(matches!(before, State::Free { .. }));
        // A free cell owns nothing; `forget` saves the check of its drop.
        std::mem::forget(before);
    }

    /// Frees the cell and returns its contents if it is live and `is_it` returns `true`. The caller
    /// must then call [`Pages::release`].
    #[inline]
    pub(super) fn vacate_if(&mut self, is_it: impl FnOnce(&Live<T>) -> bool) -> Option<Live<T>> {
        let live = self.live().filter(|&live| is_it(live))?;
        let generation = live.generation.get().saturating_add(1);
        let next = END;
        match std::mem::replace(&mut self.0, State::Free { generation, next }) {
            State::Live(live) => Some(live),
            State::Free { .. } => None,
        }
    }
}

impl<T> Pages<Entry<T>, CELLS> {
    /// Returns `true` if the entry is live and stores this place.
    #[inline]
    pub(super) fn is_there(&self, slot: u32, place: Place) -> bool {
        self.get(slot).is_some_and(|entry| entry.is_at(place))
    }

    /// Prefetches the memory of an entry.
    #[inline]
    pub(super) fn prefetch(&self, slot: u32) {
        if let Some(entry) = self.get(slot) {
            prefetch(entry);
        }
    }
}
