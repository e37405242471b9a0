//! The pieces of a body on their way from a connection to a reader on any thread.
//!
//! The connection pushes; the reader polls, or lets a [`Collect`] take everything. Wakers and the
//! listeners of promises are user code: no call of one runs under the lock, and a panic of one does not
//! reach the connection.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tidegate_core::internal::{discard, lock};

use crate::wakers::wake;

/// How many bytes are held, with the [`cost`] of each piece, before the connection stops reading.
const HIGH: usize = 64 * 1024;
/// How many bytes are left when the connection reads again.
const LOW: usize = 16 * 1024;

/// What the memory of a piece counts beside its bytes: its place in a queue, or the message that brings it,
/// and what the allocator adds. Otherwise many small pieces would take more memory than their limit.
const PIECE: usize = 128;

/// Returns how much a piece of so many bytes counts on its way to its reader.
#[inline]
pub(crate) fn cost(bytes: usize) -> usize {
    PIECE + bytes
}

/// Takes the rest of a body in place of its reader.
pub(crate) trait Collect<E>: Send {
    /// Adds a piece, under the lock of the body. Returns `false` if it takes no more.
    fn add(&mut self, piece: &Bytes) -> bool;

    /// Handles the end of the body.
    fn end(self, end: Result<(), E>);

    /// Handles that it took no more.
    fn refused(self);
}

/// For bodies that are only read in pieces.
impl<E> Collect<E> for Infallible {
    fn add(&mut self, _: &Bytes) -> bool {
        match *self {}
    }

    fn end(self, _: Result<(), E>) {
        match self {}
    }

    fn refused(self) {
        match self {}
    }
}

/// The pieces of one body that its reader has not taken; `E` says why a body has no end.
#[derive(Debug)]
pub(crate) struct Pieces<E, C = Infallible> {
    state: Mutex<State<E, C>>,
}

#[derive(Debug)]
struct State<E, C> {
    queue: VecDeque<Bytes>,
    held: usize,
    trailers: Option<Bytes>,
    /// How the body ended, if it did.
    end: Option<Result<(), E>>,
    /// The connection has stopped reading because of this body.
    paused: bool,
    /// The reader is gone.
    left: bool,
    waker: Option<Waker>,
    collector: Option<C>,
}

/// What becomes of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// It is held, and there is room for more.
    More,
    /// It is held, and the connection should stop reading.
    Full,
    /// There is no reader.
    Left,
}

/// A piece that the reader takes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) piece: Bytes,
    /// The connection should read again.
    pub(crate) resumes: bool,
}

/// A reader that has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaving {
    /// How much the pieces cost that it has left behind.
    pub(crate) held: usize,
    /// The body has not ended, and nothing else reads it.
    pub(crate) early: bool,
}

impl<E, C> Default for Pieces<E, C> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                queue: VecDeque::new(),
                held: 0,
                trailers: None,
                end: None,
                paused: false,
                left: false,
                waker: None,
                collector: None,
            }),
        }
    }
}

impl<E: Clone, C: Collect<E>> Pieces<E, C> {
    /// Creates a body that has ended.
    pub(crate) fn ended() -> Self {
        let pieces = Self::default();
        pieces.lock().end = Some(Ok(()));
        pieces
    }

    /// Adds a piece.
    pub(crate) fn push(&self, piece: Bytes) -> Pushed {
        let mut state = self.lock();
        if state.left {
            return Pushed::Left;
        }
        if let Some(collector) = &mut state.collector {
            if collector.add(&piece) {
                return Pushed::More;
            }
            state.left = true;
            let collector = state.collector.take();
            drop(state);
            if let Some(collector) = collector {
                collector.refused();
            }
            return Pushed::Left;
        }
        state.held += cost(piece.len());
        state.queue.push_back(piece);
        state.paused = state.held >= HIGH;
        let pushed = match state.paused {
            true => Pushed::Full,
            false => Pushed::More,
        };
        let waker = state.waker.take();
        drop(state);
        wake(waker);
        pushed
    }

    /// Sets the trailer fields, as they were received.
    pub(crate) fn set_trailers(&self, lines: Bytes) {
        self.lock().trailers = Some(lines);
    }

    /// Ends the body, unless it has ended.
    pub(crate) fn finish(&self, end: Result<(), E>) {
        let (waker, collector) = {
            let mut state = self.lock();
            if state.end.is_none() {
                state.end = Some(end.clone());
            }
            (state.waker.take(), state.collector.take())
        };
        wake(waker);
        if let Some(collector) = collector {
            collector.end(end);
        }
    }

    /// Passes the rest of the body to `collector`. Returns `true` if the connection should read again.
    ///
    /// # Errors
    ///
    /// The collector, if it takes no more than a part of what is held. The reader has left then.
    pub(crate) fn collect(&self, mut collector: C) -> Result<bool, C> {
        // Dropped after the lock.
        let mut queue = VecDeque::new();
        let mut state = self.lock();
        std::mem::swap(&mut queue, &mut state.queue);
        state.held = 0;
        if !queue.iter().all(|piece| collector.add(piece)) {
            state.left = true;
            return Err(collector);
        }
        match state.end.clone() {
            Some(end) => {
                drop(state);
                collector.end(end);
                Ok(false)
            }
            None => {
                state.collector = Some(collector);
                Ok(std::mem::take(&mut state.paused))
            }
        }
    }

    /// Polls for the next piece.
    pub(crate) fn poll_next(&self, cx: &Context<'_>) -> Poll<Option<Result<Taken, E>>> {
        let mut waker = None;
        loop {
            let mut state = self.lock();
            if let Some(piece) = state.queue.pop_front() {
                state.held -= cost(piece.len());
                let resumes = state.paused && state.held <= LOW;
                state.paused &= !resumes;
                return Poll::Ready(Some(Ok(Taken { piece, resumes })));
            }
            match &state.end {
                Some(Ok(())) => return Poll::Ready(None),
                Some(Err(why)) => return Poll::Ready(Some(Err(why.clone()))),
                None => {}
            }
            let own = state.waker.as_ref();
            if own.is_some_and(|own| own.will_wake(cx.waker())) {
                return Poll::Pending;
            }
            if waker.is_some() {
                let old = std::mem::replace(&mut state.waker, waker);
                drop(state);
                discard(old);
                return Poll::Pending;
            }
            drop(state);
            waker = Some(cx.waker().clone());
        }
    }

    /// Returns the trailer fields, once they were received.
    pub(crate) fn trailers(&self) -> Option<Bytes> {
        self.lock().trailers.clone()
    }

    /// Returns and removes the trailer fields.
    #[cfg(feature = "async")]
    pub(crate) fn take_trailers(&self) -> Option<Bytes> {
        self.lock().trailers.take()
    }

    /// Returns `true` if nothing is left to read: no data and no trailers.
    #[cfg(feature = "async")]
    pub(crate) fn is_at_end(&self) -> bool {
        let state = self.lock();
        state.queue.is_empty() && matches!(state.end, Some(Ok(()))) && state.trailers.is_none()
    }

    /// Ends the reader, unless a collector reads.
    pub(crate) fn leave(&self) -> Leaving {
        let (waker, queue, leaving) = {
            let mut state = self.lock();
            let reads = !state.left && state.collector.is_none();
            let leaving = Leaving {
                held: std::mem::take(&mut state.held),
                early: reads && state.end.is_none(),
            };
            state.left |= reads;
            (
                state.waker.take(),
                std::mem::take(&mut state.queue),
                leaving,
            )
        };
        discard(waker);
        drop(queue);
        leaving
    }

    fn lock(&self) -> MutexGuard<'_, State<E, C>> {
        // No user code runs under this lock, so nothing can poison it.
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests;
