//! The two kinds of streams, as a type parameter.

use std::cell::{RefCell, RefMut};
use std::ops::DerefMut;
use std::sync::{Mutex, MutexGuard};

use super::link::StreamState;
use tidegate_core::internal::lock;

/// The kind of a [`ByteStream`](crate::ByteStream) that any thread may use.
#[derive(Debug)]
pub enum AnyThread {}

/// The kind of a [`ByteStream`](crate::ByteStream) that stays on the thread of its event loop, and
/// takes no lock.
#[derive(Debug)]
pub enum OwnLoop {}

/// A kind of [`ByteStream`](crate::ByteStream): [`AnyThread`] or [`OwnLoop`].
pub trait StreamKind: 'static {
    /// A flush and a close are ready when the operating system has taken everything; otherwise at
    /// once.
    const WAITS: bool;
    /// What holds the state.
    #[doc(hidden)]
    type Cell: StreamCell;
}

impl StreamKind for AnyThread {
    const WAITS: bool = true;
    type Cell = Mutex<StreamState>;
}

impl StreamKind for OwnLoop {
    const WAITS: bool = false;
    type Cell = RefCell<StreamState>;
}

/// Holds the state that a stream and its handler share.
pub trait StreamCell: Default {
    /// Locks or borrows the state.
    fn lock(&self) -> impl DerefMut<Target = StreamState>;
}

impl StreamCell for Mutex<StreamState> {
    fn lock(&self) -> impl DerefMut<Target = StreamState> {
        let guard: MutexGuard<'_, StreamState> = lock(self);
        guard
    }
}

impl StreamCell for RefCell<StreamState> {
    fn lock(&self) -> impl DerefMut<Target = StreamState> {
        let guard: RefMut<'_, StreamState> = self.borrow_mut();
        guard
    }
}
