//! An entry of a wheel: one cell of its slab.

use tidegate_core::prefetch;

use super::lists::Place;
use super::pages::{Cell, END, Pages};
use crate::key::{Generation, RETIRED};

/// Entries per page.
pub(super) const CELLS: usize = 512;

/// Half a cache line with a value of two words, one line with up to six.
#[derive(Debug)]
#[repr(align(32))]
pub(super) struct Entry<T>(pub(super) State<T>);

/// The generation of a live entry is never zero, which is where the compiler keeps the
/// difference between the variants: it needs no room of its own.
#[derive(Debug)]
pub(super) enum State<T> {
    Live(Live<T>),
    Free {
        /// Of the next value.
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
    fn go_before(&mut self, after: u16) -> bool {
        let State::Free { generation, next } = &mut self.0 else {
            unreachable!("only a vacated cell is put on the free list")
        };
        *next = after;
        *generation != RETIRED.get()
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
    /// The generation that the next value of a free cell has.
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

    /// Whether a live entry says that it is at a place.
    #[inline]
    pub(super) fn is_at(&self, place: Place) -> bool {
        self.live().is_some_and(|live| live.place == place)
    }

    /// Makes a free cell live.
    #[inline]
    pub(super) fn fill(&mut self, live: Live<T>) {
        let before = std::mem::replace(&mut self.0, State::Live(live));
        debug_assert!(matches!(before, State::Free { .. }));
        // Nothing is in it, and nobody needs to look.
        std::mem::forget(before);
    }

    /// Makes it free if it is live and `is_it` says so; [`Pages::release`] has to follow.
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
    /// Whether a live entry says that it is at a place.
    #[inline]
    pub(super) fn is_there(&self, slot: u32, place: Place) -> bool {
        self.get(slot).is_some_and(|entry| entry.is_at(place))
    }

    /// Asks for the memory of an entry.
    #[inline]
    pub(super) fn ask_for(&self, slot: u32) {
        if let Some(entry) = self.get(slot) {
            prefetch(entry);
        }
    }
}
