//! A table of values. Its slots carry a generation, and its values can be away for a while: from
//! `take` to `put`.
//!
//! # Invariants
//!
//! * A token is valid from `reserve` until `remove`; afterwards the slot has another generation.
//! * A value that was taken is away until it is put back or its slot is removed. Meanwhile its slot
//!   collects the readiness that the value misses.

use crate::sys::{Readiness, Token, prefetch};

/// The highest generation, so that no token equals the waker's.
const HALF: u32 = u32::MAX >> 1;

/// A table of values by token.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Option<u32>,
    len: usize,
    /// The generation of slots that were never used.
    first: u32,
}

#[derive(Debug)]
struct Slot<T> {
    /// `None` while the value is away or the slot is free.
    value: Option<T>,
    generation: u32,
    /// Readiness that came while the value was away.
    missed: Readiness,
    used: bool,
    /// The next free slot, if this one is free.
    next: Option<u32>,
}

/// Result of [`Slab::take`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken<T> {
    /// The value.
    Present(T),
    /// The value is away; it gets the readiness when it comes back.
    Away,
    /// The value of this token is gone.
    Stale,
}

impl<T> Slab<T> {
    /// Creates a table whose generations start at `first`. It shares no token with an earlier table
    /// if `first` is what [`Slab::next_first`] returned there.
    pub(crate) fn new(first: u32) -> Self {
        Self {
            slots: Vec::new(),
            free: None,
            len: 0,
            first,
        }
    }

    /// Returns a generation that no token has had so far.
    pub(crate) fn next_first(&self) -> u32 {
        let highest = self.slots.iter().map(|slot| slot.generation).max();
        highest.map_or(self.first, |highest| highest + 1) & HALF
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Reserves a slot; its value is away until it is put there.
    pub(crate) fn reserve(&mut self) -> Token {
        self.len += 1;
        if let Some(at) = self.free {
            let slot = &mut self.slots[at as usize];
            self.free = slot.next.take();
            slot.used = true;
            return Token::new(at, slot.generation);
        }
        let at = u32::try_from(self.slots.len()).expect("fewer than 2^32 sockets");
        self.slots.push(Slot {
            value: None,
            generation: self.first,
            missed: Readiness::NONE,
            used: true,
            next: None,
        });
        Token::new(at, self.first)
    }

    /// Takes a value out to handle `readiness`. A value that is away gets the readiness when it
    /// comes back.
    #[inline]
    pub(crate) fn take(&mut self, token: Token, readiness: Readiness) -> Taken<T> {
        let Some(slot) = self.slot(token) else {
            return Taken::Stale;
        };
        match slot.value.take() {
            Some(value) => Taken::Present(value),
            None if slot.used => {
                slot.missed |= readiness;
                Taken::Away
            }
            None => Taken::Stale,
        }
    }

    /// Puts a value back. Returns the readiness that it missed, or the value if its slot is gone.
    #[inline]
    pub(crate) fn put(&mut self, token: Token, value: T) -> Result<Readiness, T> {
        match self.slot(token) {
            Some(slot) if slot.used && slot.value.is_none() => {
                slot.value = Some(value);
                Ok(std::mem::take(&mut slot.missed))
            }
            _ => Err(value),
        }
    }

    /// Frees a slot. Returns the value, if it was not away.
    pub(crate) fn remove(&mut self, token: Token) -> Option<T> {
        let free = self.free;
        let slot = self.slot(token)?;
        if !slot.used {
            return None;
        }
        slot.used = false;
        slot.missed = Readiness::NONE;
        slot.next = free;
        slot.generation = (slot.generation + 1) & HALF;
        let value = slot.value.take();
        self.free = Some(token.slot());
        self.len -= 1;
        value
    }

    /// Returns `true` if `token` names a value, in its slot or away.
    pub(crate) fn slot_exists(&mut self, token: Token) -> bool {
        self.slot(token).is_some_and(|slot| slot.used)
    }

    /// Returns the values that are in their slots.
    pub(crate) fn present(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|slot| slot.value.as_ref())
    }

    /// Returns the tokens of all values, and the values that are in their slots.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Token, Option<&T>)> {
        let slots = self.slots.iter().zip(0..);
        let used = slots.filter(|(slot, _)| slot.used);
        used.map(|(slot, at)| (Token::new(at, slot.generation), slot.value.as_ref()))
    }

    /// Returns the value in the slot of `token`, whatever its generation.
    #[inline]
    pub(crate) fn peek(&self, token: Token) -> Option<&T> {
        self.slots.get(token.slot() as usize)?.value.as_ref()
    }

    /// Prefetches the slot of `token`.
    #[inline]
    pub(crate) fn prefetch(&self, token: Token) {
        if let Some(slot) = self.slots.get(token.slot() as usize) {
            prefetch(slot);
        }
    }

    /// Returns a value that is in its slot, mutably.
    pub(crate) fn get_mut(&mut self, token: Token) -> Option<&mut T> {
        self.slot(token)?.value.as_mut()
    }

    /// Returns the tokens of all values, in their slots or away.
    pub(crate) fn tokens(&self) -> Vec<Token> {
        let taken = |(at, slot): (usize, &Slot<T>)| {
            let at = u32::try_from(at).ok()?;
            slot.used.then_some(Token::new(at, slot.generation))
        };
        self.slots.iter().enumerate().filter_map(taken).collect()
    }

    #[inline]
    fn slot(&mut self, token: Token) -> Option<&mut Slot<T>> {
        let slot = self.slots.get_mut(token.slot() as usize)?;
        (slot.generation == token.generation()).then_some(slot)
    }
}

#[cfg(test)]
mod tests {
    //! Tokens, values that are away, and the readiness that they miss.

    use super::*;

    #[test]
    fn a_token_of_a_removed_source_is_stale_even_when_its_slot_is_reused() {
        let mut slab = Slab::new(1);
        let first = slab.reserve();
        assert_eq!(slab.put(first, "a"), Ok(Readiness::NONE));
        assert_eq!(slab.remove(first), Some("a"));
        let second = slab.reserve();
        assert_eq!(first.slot(), second.slot());
        assert_ne!(first, second);
        assert_eq!(slab.take(first, Readiness::READ), Taken::Stale);
        assert_eq!(slab.put(first, "late"), Err("late"));
        assert_eq!(slab.remove(first), None);
        assert_eq!(
            slab.put(second, "b"),
            Ok(Readiness::NONE),
            "no event arrived"
        );
        assert_eq!((slab.len(), slab.tokens()), (1, vec![second]));
    }

    #[test]
    fn events_of_an_absent_source_are_delivered_on_its_return() {
        let mut slab = Slab::new(1);
        let token = slab.reserve();
        assert_eq!(slab.put(token, 7), Ok(Readiness::NONE));
        assert_eq!(slab.take(token, Readiness::READ), Taken::Present(7));
        assert_eq!(slab.take(token, Readiness::WRITE), Taken::Away);
        assert_eq!(slab.take(token, Readiness::HANG_UP), Taken::Away);
        let missed = Readiness::WRITE | Readiness::HANG_UP;
        assert_eq!(slab.put(token, 7), Ok(missed));
        assert_eq!(slab.take(token, Readiness::READ), Taken::Present(7));
        assert_eq!(slab.put(token, 7), Ok(Readiness::NONE), "reported once");
    }

    #[test]
    fn a_table_that_follows_another_has_none_of_its_tokens() {
        let mut old = Slab::new(1);
        let token = old.reserve();
        assert_eq!(old.put(token, ()), Ok(Readiness::NONE));
        old.remove(token);
        let mut new = Slab::new(old.next_first());
        let other = new.reserve();
        assert_eq!(token.slot(), other.slot());
        assert_eq!(new.put(other, ()), Ok(Readiness::NONE));
        assert_eq!(new.take(token, Readiness::READ), Taken::Stale);
    }

    #[test]
    fn places_are_used_again_last_freed_first() {
        let mut slab: Slab<()> = Slab::new(1);
        let tokens: Vec<_> = (0..4).map(|_| slab.reserve()).collect();
        slab.remove(tokens[1]);
        slab.remove(tokens[3]);
        assert_eq!(slab.reserve().slot(), 3);
        assert_eq!(slab.reserve().slot(), 1);
        assert_eq!(slab.reserve().slot(), 4);
        assert_eq!(slab.len(), 5);
    }
}
