//! A value on cache lines of its own.

use std::ops::{Deref, DerefMut};

/// Keeps a value on cache lines that nothing else uses, so that its writers do not slow the readers
/// of what lies beside it.
///
/// The alignment is two lines of 64 bytes: processors fetch lines in pairs, and some have lines of
/// 128.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CachePadded<T>(T);

impl<T> CachePadded<T> {
    /// Pads `value`.
    pub const fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T> Deref for CachePadded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for CachePadded<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
