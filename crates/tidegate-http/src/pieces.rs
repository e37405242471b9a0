//! The pieces of a body on their way from a connection to a reader on any thread.
//!
//! The connection pushes; the reader polls, or lets a [`Collect`] take everything. Wakers and the
//! listeners of promises are user code: no call of one runs under the lock, and a panic of one does not
//! reach the connection.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use tidegate_core::internal::discard;

use crate::wakers::wake;

/// How many bytes are held before the connection stops reading.
const HIGH: usize = 64 * 1024;
/// How many bytes are left when the connection reads again.
const LOW: usize = 16 * 1024;

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
    /// How many bytes it has left behind.
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
        state.held += piece.len();
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Wake;

    use tidegate_testkit::Log;

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
        let leaving = |held, early| Leaving { held, early };
        assert_eq!(pieces.leave(), leaving(0, true));
        assert_eq!(pieces.push(Bytes::from("d")), Pushed::Left);
        pieces.finish(Ok(()));
        assert_eq!(pieces.leave(), leaving(0, false));
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

    /// Collects up to five bytes, and logs how that ended.
    struct UpToFive(usize, Log<String>);

    impl Collect<&'static str> for UpToFive {
        fn add(&mut self, piece: &Bytes) -> bool {
            self.0 += piece.len();
            self.0 <= 5
        }

        fn end(self, end: Result<(), &'static str>) {
            self.1.push(format!("{} {end:?}", self.0));
        }

        fn refused(self) {
            self.1.push(format!("{} refused", self.0));
        }
    }

    #[test]
    fn a_collector_gets_what_is_held_and_what_comes() {
        let log = Log::new();
        for (end, logged) in [(Ok(()), "5 Ok(())"), (Err("cut"), "5 Err(\"cut\")")] {
            // Before the first piece, between two, after the last, and after the end.
            for moment in 0..4 {
                let pieces = Pieces::<&'static str, UpToFive>::default();
                let collect = |now: usize| {
                    if now == moment {
                        let collected = pieces.collect(UpToFive(0, log.clone()));
                        assert!(matches!(collected, Ok(false)));
                    }
                };
                collect(0);
                assert_eq!(pieces.push(Bytes::from("ab")), Pushed::More);
                collect(1);
                assert_eq!(pieces.push(Bytes::from("cde")), Pushed::More);
                collect(2);
                pieces.finish(end);
                collect(3);
                pieces.finish(Err("twice"));
                assert_eq!(log.take(), [logged], "{moment}");
                let early = false;
                assert_eq!(pieces.leave(), Leaving { held: 0, early });
            }
        }
    }

    #[test]
    fn a_collector_that_takes_no_more_ends_the_reader() {
        let log = Log::new();
        let pieces = Pieces::<&'static str, UpToFive>::default();
        assert!(pieces.collect(UpToFive(0, log.clone())).is_ok());
        assert_eq!(pieces.push(Bytes::from("abcd")), Pushed::More);
        assert_eq!(pieces.push(Bytes::from("efg")), Pushed::Left);
        assert_eq!(log.take(), ["7 refused"]);
        assert_eq!(pieces.push(Bytes::from("h")), Pushed::Left);
        pieces.finish(Ok(()));
        assert!(log.is_empty(), "it has ended once");
        let pieces = Pieces::<&'static str, UpToFive>::default();
        pieces.push(Bytes::from("abcdef"));
        assert!(pieces.collect(UpToFive(0, log.clone())).is_err());
        assert_eq!(pieces.push(Bytes::from("g")), Pushed::Left);
        let (held, early) = (0, false);
        assert_eq!(pieces.leave(), Leaving { held, early });
    }

    #[test]
    fn a_collector_lets_a_connection_that_was_stopped_read_again() {
        let pieces = Pieces::<&'static str, Unlimited>::default();
        assert_eq!(pieces.push(Bytes::from(vec![0; HIGH])), Pushed::Full);
        assert!(matches!(pieces.collect(Unlimited), Ok(true)));
        assert_eq!(pieces.push(Bytes::from(vec![0; HIGH])), Pushed::More);
    }

    struct Unlimited;

    impl Collect<&'static str> for Unlimited {
        fn add(&mut self, _: &Bytes) -> bool {
            true
        }

        fn end(self, _: Result<(), &'static str>) {}

        fn refused(self) {
            unreachable!("it takes everything");
        }
    }
}
