//! The pieces of a body on their way from a connection to a reader on any thread.
//!
//! The connection pushes, the reader polls. Wakers are user code: no call of one runs under the lock,
//! and a panic of one does not reach the connection.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tidegate_core::internal::{contain, discard};

/// How many bytes are held before the connection stops reading.
const HIGH: usize = 64 * 1024;
/// How many bytes are left when the connection reads again.
const LOW: usize = 16 * 1024;

/// The pieces of one body that its reader has not taken; `E` says why a body has no end.
#[derive(Debug)]
pub(crate) struct Pieces<E> {
    state: Mutex<State<E>>,
}

#[derive(Debug)]
struct State<E> {
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

impl<E> Default for Pieces<E> {
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
            }),
        }
    }
}

impl<E: Clone> Pieces<E> {
    /// Creates a body that has ended.
    pub(crate) fn ended() -> Self {
        let pieces = Self::default();
        pieces.lock().end = Some(Ok(()));
        pieces
    }

    /// Adds a piece.
    pub(crate) fn push(&self, piece: Bytes) -> Pushed {
        let (pushed, waker) = {
            let mut state = self.lock();
            if state.left {
                return Pushed::Left;
            }
            state.held += piece.len();
            state.queue.push_back(piece);
            state.paused = state.held >= HIGH;
            let pushed = match state.paused {
                true => Pushed::Full,
                false => Pushed::More,
            };
            (pushed, state.waker.take())
        };
        wake(waker);
        pushed
    }

    /// Sets the trailer fields, as they were received.
    pub(crate) fn set_trailers(&self, lines: Bytes) {
        self.lock().trailers = Some(lines);
    }

    /// Ends the body, unless it has ended.
    pub(crate) fn finish(&self, end: Result<(), E>) {
        let waker = {
            let mut state = self.lock();
            state.end.get_or_insert(end);
            state.waker.take()
        };
        wake(waker);
    }

    /// Polls for the next piece.
    pub(crate) fn poll_next(&self, cx: &Context<'_>) -> Poll<Option<Result<Taken, E>>> {
        let mut waker = None;
        loop {
            let mut state = self.lock();
            if let Some(piece) = state.queue.pop_front() {
                state.held -= piece.len();
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

    /// Ends the reader. Returns how many bytes it has left behind, and whether the body had ended.
    pub(crate) fn leave(&self) -> (usize, bool) {
        let (waker, queue, held, ended) = {
            let mut state = self.lock();
            state.left = true;
            let held = std::mem::take(&mut state.held);
            let queue = std::mem::take(&mut state.queue);
            (state.waker.take(), queue, held, state.end.is_some())
        };
        discard(waker);
        drop(queue);
        (held, ended)
    }

    fn lock(&self) -> MutexGuard<'_, State<E>> {
        // No user code runs under this lock, so nothing can poison it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the reader, on the connection's thread.
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        // The connection goes on, whatever the waker of one reader does.
        let _ = contain(|| waker.wake());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Wake;

    use super::*;

    type Text = Pieces<&'static str>;

    /// A waker that uses its body, as user code may, and panics.
    struct Panics(Arc<Text>);

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            assert!(self.0.trailers().is_none());
            panic!("on purpose");
        }
    }

    impl Drop for Panics {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                assert!(self.0.trailers().is_none());
                panic!("on purpose, too");
            }
        }
    }

    fn polled(pieces: &Text, waker: &Waker) -> Poll<Option<Result<Taken, &'static str>>> {
        pieces.poll_next(&Context::from_waker(waker))
    }

    /// Makes the reader of `pieces` wait with a waker that panics.
    fn wait(pieces: &Arc<Text>) {
        let waker = Waker::from(Arc::new(Panics(Arc::clone(pieces))));
        assert!(polled(pieces, &waker).is_pending());
        discard(waker);
    }

    #[test]
    fn a_waker_that_panics_harms_neither_the_connection_nor_the_body() {
        let pieces = Arc::new(Text::default());
        wait(&pieces);
        assert_eq!(pieces.push(Bytes::from("a")), Pushed::More);
        let piece = Bytes::from("a");
        let resumes = false;
        let taken = Poll::Ready(Some(Ok(Taken { piece, resumes })));
        assert_eq!(polled(&pieces, Waker::noop()), taken);
        wait(&pieces);
        // Takes the place of the one that panics when it is dropped.
        assert!(polled(&pieces, Waker::noop()).is_pending());
        wait(&pieces);
        pieces.finish(Err("cut"));
        let cut = Poll::Ready(Some(Err("cut")));
        assert_eq!(polled(&pieces, Waker::noop()), cut);
    }

    #[test]
    fn a_reader_may_leave_with_a_waker_that_panics() {
        let pieces = Arc::new(Text::default());
        assert_eq!(pieces.push(Bytes::from("abc")), Pushed::More);
        assert!(polled(&pieces, Waker::noop()).is_ready());
        wait(&pieces);
        assert_eq!(pieces.leave(), (0, false));
        assert_eq!(pieces.push(Bytes::from("d")), Pushed::Left);
        pieces.finish(Ok(()));
        assert_eq!(pieces.leave(), (0, true));
    }

    #[test]
    fn a_full_queue_asks_for_more_when_most_of_it_is_taken() {
        let pieces = Text::default();
        for _ in 0..3 {
            assert_eq!(pieces.push(Bytes::from(vec![0; LOW])), Pushed::More);
        }
        assert_eq!(pieces.push(Bytes::from(vec![0; LOW])), Pushed::Full);
        let mut resumes = Vec::new();
        while let Poll::Ready(Some(Ok(taken))) = polled(&pieces, Waker::noop()) {
            resumes.push(taken.resumes);
        }
        assert_eq!(resumes, [false, false, true, false]);
    }
}
