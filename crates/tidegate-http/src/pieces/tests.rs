//! The queue of pieces: hostile wakers, collectors, and a model.

use std::sync::Arc;
use std::task::Wake;

use tidegate_testkit::{Log, model};

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
    let quarter = Bytes::from(vec![0; LOW - PIECE]);
    for _ in 0..3 {
        assert_eq!(pieces.push(quarter.clone()), Pushed::More);
    }
    assert_eq!(pieces.push(quarter), Pushed::Full);
    let mut resumes = Vec::new();
    while let Poll::Ready(Some(Ok(taken))) = polled(&pieces, Waker::noop()) {
        resumes.push(taken.resumes);
    }
    assert_eq!(resumes, [false, false, true, false]);
}

#[test]
fn small_pieces_count_with_the_memory_that_they_take() {
    let pieces = Text::default();
    let mut held = 1;
    while pieces.push(Bytes::from_static(b"x")) == Pushed::More {
        held += 1;
    }
    assert_eq!(held, HIGH.div_ceil(PIECE + 1));
    for left in (0..held).rev() {
        let Poll::Ready(Some(Ok(taken))) = polled(&pieces, Waker::noop()) else {
            panic!("it was pushed");
        };
        assert_eq!(taken.resumes, left == LOW / (PIECE + 1), "{left}");
    }
    let (held, early) = (0, true);
    assert_eq!(pieces.leave(), Leaving { held, early });
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

/// How a body ends.
type End = Result<(), &'static str>;

/// Collects up to a number of bytes, and keeps them with how that ended.
struct Keeps {
    max: usize,
    bytes: Vec<u8>,
    ends: Log<(Vec<u8>, Option<End>)>,
}

impl Collect<&'static str> for Keeps {
    fn add(&mut self, piece: &Bytes) -> bool {
        let fits = self.bytes.len() + piece.len() <= self.max;
        if fits {
            self.bytes.extend_from_slice(piece);
        }
        fits
    }

    fn end(self, end: Result<(), &'static str>) {
        self.ends.push((self.bytes, Some(end)));
    }

    fn refused(self) {
        self.ends.push((self.bytes, None));
    }
}

/// What a reader should see.
#[derive(Default)]
struct Naive {
    /// Bytes that were pushed, and how many of them the reader has taken.
    pushed: Vec<u8>,
    taken: usize,
    /// How many pieces the reader has not taken.
    pieces: usize,
    end: Option<End>,
    paused: bool,
    gone: bool,
}

impl Naive {
    /// How much the pieces cost that the reader has not taken.
    fn held(&self) -> usize {
        self.pushed.len() - self.taken + self.pieces * PIECE
    }
}

#[test]
fn a_reader_gets_every_byte_once_and_one_end() {
    model(0..300, |rng| {
        let pieces = Pieces::<&'static str, Keeps>::default();
        let mut naive = Naive::default();
        for _ in 0..60 {
            match rng.below(8) {
                0..=2 if naive.end.is_none() => {
                    let piece = vec![rng.below(256) as u8; rng.index(40_000)];
                    let held = naive.held() + cost(piece.len());
                    let expected = match (naive.gone, held >= HIGH) {
                        (true, _) => Pushed::Left,
                        (false, true) => Pushed::Full,
                        (false, false) => Pushed::More,
                    };
                    assert_eq!(pieces.push(Bytes::from(piece.clone())), expected);
                    naive.pushed.extend_from_slice(&piece);
                    naive.pieces += 1;
                    naive.paused = expected == Pushed::Full;
                }
                3..=5 if !naive.gone => match polled_any(&pieces) {
                    Poll::Ready(Some(Ok(Taken { piece, resumes }))) => {
                        let rest = &naive.pushed[naive.taken..];
                        assert!(rest.starts_with(&piece));
                        naive.taken += piece.len();
                        naive.pieces -= 1;
                        assert_eq!(resumes, naive.paused && naive.held() <= LOW);
                        naive.paused &= !resumes;
                    }
                    Poll::Ready(end) => {
                        assert_eq!(naive.taken, naive.pushed.len());
                        let end = end.map_or(Ok(()), |end| end.map(drop));
                        assert_eq!(Some(end), naive.end);
                    }
                    Poll::Pending => {
                        assert_eq!((naive.taken, naive.end), (naive.pushed.len(), None))
                    }
                },
                6 if rng.below(8) == 0 && naive.end.is_none() => {
                    let end = [Ok(()), Err("cut")][rng.index(2)];
                    pieces.finish(end);
                    naive.end = Some(end);
                }
                7 if rng.below(8) == 0 && !naive.gone => match rng.below(2) {
                    0 => {
                        let leaving = Leaving {
                            held: naive.held(),
                            early: naive.end.is_none(),
                        };
                        assert_eq!(pieces.leave(), leaving);
                        naive.gone = true;
                    }
                    _ => return collect_the_rest(&pieces, naive, rng.index(200_000)),
                },
                _ => {}
            }
        }
    });
}

fn polled_any(pieces: &Pieces<&'static str, Keeps>) -> Poll<Option<Result<Taken, &'static str>>> {
    pieces.poll_next(&Context::from_waker(Waker::noop()))
}

/// Collects what is left, up to `max` bytes: half of it is there, the rest and the end follow.
fn collect_the_rest(pieces: &Pieces<&'static str, Keeps>, naive: Naive, max: usize) {
    let ends = Log::new();
    let collector = Keeps {
        max,
        bytes: Vec::new(),
        ends: ends.clone(),
    };
    let mut rest = naive.pushed[naive.taken..].to_vec();
    match pieces.collect(collector) {
        Ok(resumes) => assert_eq!(resumes, naive.paused && naive.end.is_none()),
        Err(collector) => {
            assert!(rest.len() > max);
            collector.refused();
        }
    }
    let mut fits = rest.len() <= max;
    for _ in 0..3 {
        let piece = vec![b'x'; 10_000];
        if naive.end.is_none() && fits {
            fits = rest.len() + piece.len() <= max;
            let expected = if fits { Pushed::More } else { Pushed::Left };
            assert_eq!(pieces.push(Bytes::from(piece.clone())), expected);
            rest.extend_from_slice(&piece);
        }
    }
    pieces.finish(Ok(()));
    let ends = ends.take();
    assert_eq!(ends.len(), 1);
    let (bytes, end) = &ends[0];
    assert!(rest.starts_with(bytes));
    let expected = fits.then(|| naive.end.unwrap_or(Ok(())));
    assert_eq!((bytes.len() == rest.len(), *end), (fits, expected));
    let (held, early) = (0, false);
    assert_eq!(pieces.leave(), Leaving { held, early });
}
