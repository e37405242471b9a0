//! Order, accounting and promises of a queue over a sink that a test controls.

use super::*;
use tidegate_promise::{Completion, promise};

/// Accepts `room` bytes, at most `per_call` at once, then blocks.
#[derive(Default)]
struct Pipe {
    room: usize,
    per_call: Option<usize>,
    taken: Vec<u8>,
    slices: Vec<usize>,
    broken: Option<io::ErrorKind>,
}

impl Sink for Pipe {
    fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if let Some(why) = self.broken {
            return Err(why.into());
        }
        if self.room == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.slices.push(slices.len());
        let most = self.room.min(self.per_call.unwrap_or(usize::MAX));
        let all: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
        let count = all.len().min(most);
        self.taken.extend(&all[..count]);
        self.room -= count;
        Ok(count)
    }
}

fn pipe(room: usize) -> Pipe {
    Pipe {
        room,
        ..Pipe::default()
    }
}

fn push(queue: &mut WriteQueue, bytes: &'static str) -> Completion<()> {
    let (promise, done) = promise();
    let marks = WaterMarks::default();
    queue.push(bytes.into(), Some(promise), &marks).unwrap();
    done
}

#[test]
fn nothing_is_written_before_a_flush_and_what_comes_later_waits_for_the_next() {
    let mut queue = WriteQueue::new();
    let first = push(&mut queue, "a");
    let mut sink = pipe(100);
    assert_eq!(queue.drain(&mut sink, 16).unwrap(), Drained::All);
    assert!(sink.taken.is_empty() && !first.is_done());
    queue.flush();
    let second = push(&mut queue, "b");
    assert_eq!(queue.drain(&mut sink, 16).unwrap(), Drained::All);
    assert_eq!(sink.taken, b"a");
    assert_eq!((first.is_done(), second.is_done()), (true, false));
    queue.flush();
    queue.drain(&mut sink, 16).unwrap();
    assert_eq!(
        (sink.taken.as_slice(), second.is_done()),
        (&b"ab"[..], true)
    );
}

#[test]
fn one_flush_is_one_call_up_to_1024_slices() {
    let mut queue = WriteQueue::new();
    let marks = WaterMarks::default();
    for _ in 0..1500 {
        queue.push("x".into(), None, &marks).unwrap();
    }
    queue.flush();
    let mut sink = pipe(10_000);
    assert_eq!(queue.drain(&mut sink, 16).unwrap(), Drained::All);
    assert_eq!(sink.slices, [1024, 476]);
    assert_eq!(sink.taken.len(), 1500);
    assert_eq!((queue.len(), queue.pending()), (0, 0));
}

#[test]
fn a_short_write_completes_whole_entries_and_shrinks_the_next() {
    let mut queue = WriteQueue::new();
    let (one, two) = (push(&mut queue, "hello"), push(&mut queue, "world"));
    queue.flush();
    let mut sink = pipe(7);
    assert_eq!(queue.drain(&mut sink, 16).unwrap(), Drained::Blocked);
    assert_eq!((one.is_done(), two.is_done()), (true, false));
    assert_eq!(
        queue.pending(),
        5 + ENTRY_OVERHEAD,
        "an entry counts until it is gone"
    );
    sink.room = 100;
    assert_eq!(queue.drain(&mut sink, 16).unwrap(), Drained::All);
    assert_eq!(sink.taken, b"helloworld");
    assert!(two.is_done());
    assert_eq!(queue.written(), 10);
}

#[test]
fn an_empty_entry_is_completed_in_its_turn() {
    let mut queue = WriteQueue::new();
    let (one, two) = (push(&mut queue, "x"), push(&mut queue, ""));
    queue.flush();
    let mut sink = pipe(0);
    assert_eq!(queue.drain(&mut sink, 16).unwrap(), Drained::Blocked);
    assert!(!one.is_done() && !two.is_done());
    sink.room = 1;
    assert_eq!(queue.drain(&mut sink, 16).unwrap(), Drained::All);
    assert!(one.is_done() && two.is_done());
}

#[test]
fn an_empty_entry_is_no_call() {
    let mut queue = WriteQueue::new();
    // Fails like a socket whose sending half is closed.
    let mut sink = Pipe {
        broken: Some(io::ErrorKind::BrokenPipe),
        ..Pipe::default()
    };
    let marks = WaterMarks::default();
    queue.push(Bytes::new(), None, &marks).unwrap();
    queue.flush();
    assert!(queue.drain_one(&mut sink).is_err(), "not on the short way");
    assert_eq!(queue.drain(&mut sink, 1).unwrap(), Drained::All);
    let (first, second) = (push(&mut queue, ""), push(&mut queue, "x"));
    queue.flush();
    let broken = queue.drain(&mut sink, 16).unwrap_err();
    assert_eq!(broken.kind(), io::ErrorKind::BrokenPipe);
    assert!(first.is_done() && !second.is_done());
}

#[test]
fn the_spins_are_bounded_and_the_rest_comes_later() {
    let mut queue = WriteQueue::new();
    let done = push(&mut queue, "0123456789012345678901234567890123456789");
    queue.flush();
    let mut sink = pipe(100);
    sink.per_call = Some(2);
    assert_eq!(queue.drain(&mut sink, WRITE_SPIN).unwrap(), Drained::Spent);
    assert_eq!(sink.taken.len(), 2 * WRITE_SPIN);
    assert!(!done.is_done());
    assert_eq!(queue.drain(&mut sink, WRITE_SPIN).unwrap(), Drained::All);
    assert!(done.is_done());
}

#[test]
fn a_write_that_was_cancelled_before_the_flush_is_left_out() {
    let mut queue = WriteQueue::new();
    let (one, two, three) = (
        push(&mut queue, "a"),
        push(&mut queue, "b"),
        push(&mut queue, "c"),
    );
    assert!(one.cancel() && two.cancel());
    queue.flush();
    assert_eq!(queue.pending(), 1 + ENTRY_OVERHEAD);
    assert!(!three.cancel(), "flushed: too late");
    let mut sink = pipe(100);
    queue.drain(&mut sink, 16).unwrap();
    assert_eq!(sink.taken, b"c");
    assert!(three.is_done());
}

#[test]
fn flushes_at_the_same_place_share_an_entry_and_complete_in_their_turn() {
    let mut queue = WriteQueue::new();
    let flush_for = |queue: &mut WriteQueue, of: usize| -> Vec<_> {
        let waits = (0..of).map(|_| {
            let (promise, done) = promise::<()>();
            assert!(queue.push_mark(promise).is_none());
            done
        });
        let waits = waits.collect();
        queue.flush();
        waits
    };
    drop(push(&mut queue, "a"));
    let first = flush_for(&mut queue, 1000);
    drop(flush_for(&mut queue, 1000));
    drop(push(&mut queue, "b"));
    let second = flush_for(&mut queue, 1000);
    assert_eq!(
        (queue.len(), queue.pending()),
        (4, 2 * (1 + ENTRY_OVERHEAD))
    );
    let done = |waits: &[Completion<()>]| waits.iter().all(Completion::is_done);
    queue.drain(&mut pipe(1), 16).unwrap();
    assert!(done(&first) && !second[0].is_done());
    queue.drain(&mut pipe(1), 16).unwrap();
    assert!(done(&second) && queue.is_empty() && queue.rest.is_none());
    assert!(
        queue.push_mark(promise().0).is_some(),
        "nothing to wait for"
    );
}

#[test]
fn failing_completes_every_promise_once_and_counts_nothing() {
    let mut queue = WriteQueue::new();
    let (one, two) = (push(&mut queue, "a"), push(&mut queue, "b"));
    queue.flush();
    let three = push(&mut queue, "c");
    let mut sink = pipe(1);
    sink.broken = Some(io::ErrorKind::ConnectionReset);
    let why = queue.drain(&mut sink, 16).unwrap_err();
    queue.fail_all(&Failure::new(why));
    for failed in [one, two, three] {
        let why = failed.wait().unwrap_err().failure().unwrap();
        assert!(why.to_string().contains("reset"));
    }
    assert_eq!(
        (queue.len(), queue.pending(), queue.has_flushed()),
        (0, 0, false)
    );
}

#[test]
fn above_the_cap_a_write_is_given_back() {
    let mut queue = WriteQueue::new();
    let marks = WaterMarks::new(10, 100, 250).unwrap();
    queue.push("0123456789".into(), None, &marks).unwrap();
    queue.push("0123456789".into(), None, &marks).unwrap();
    let (promise, done) = promise();
    let refused = queue.push("more".into(), Some(promise), &marks);
    let Overfull { bytes, promise } = refused.unwrap_err();
    assert_eq!(bytes, "more");
    assert!(promise.is_some() && !done.is_done());
    assert_eq!(queue.pending(), 2 * (10 + ENTRY_OVERHEAD));
    let mut lone = WriteQueue::new();
    let huge = Bytes::from(vec![0; 155]);
    let refused = lone.push(huge, None, &marks).unwrap_err();
    assert_eq!(
        (refused.bytes.len(), lone.pending()),
        (155, 0),
        "alone, too"
    );
    let fits = Bytes::from(vec![0; 154]);
    assert!(lone.push(fits, None, &marks).is_ok());
}

#[test]
fn the_marks_are_32_and_64_kib_and_in_order() {
    let marks = WaterMarks::default();
    assert_eq!((marks.low(), marks.high()), (32 * 1024, 64 * 1024));
    assert!(WaterMarks::new(0, 0, 0).is_ok());
    assert!(WaterMarks::new(2, 1, 9).is_err());
    assert!(WaterMarks::new(1, 3, 2).is_err());
}

#[test]
fn a_drained_queue_holds_no_memory() {
    let mut queue = WriteQueue::new();
    for _ in 0..100 {
        drop(push(&mut queue, "x"));
    }
    queue.flush();
    queue.drain(&mut pipe(1000), 16).unwrap();
    assert!(queue.rest.is_none());
    assert_eq!(queue.len(), 0);
}

#[test]
fn a_thousand_random_operations_keep_order_and_accounts() {
    tidegate_testkit::model(0..50, |rng| {
        let mut queue = WriteQueue::new();
        let marks = WaterMarks::default();
        let (mut written, mut sent) = (Vec::<u8>::new(), Vec::<u8>::new());
        let mut flushed = 0;
        for step in 0..200_u32 {
            match rng.below(4) {
                0 | 1 => {
                    let bytes = vec![step as u8; rng.below(50) as usize];
                    written.extend(&bytes);
                    queue.push(bytes.into(), None, &marks).unwrap();
                }
                2 => {
                    queue.flush();
                    flushed = written.len();
                }
                _ => {
                    let mut sink = pipe(rng.below(120) as usize);
                    queue.drain(&mut sink, 4).unwrap();
                    sent.extend(&sink.taken);
                }
            }
            assert!(sent.len() <= flushed);
            assert_eq!(sent, written[..sent.len()]);
            let waiting = written.len() - sent.len();
            assert!(queue.pending() >= waiting);
        }
    });
}

/// Accepts everything, and sends files itself unless `reads`. Logs the calls.
#[derive(Default)]
struct FileSink {
    reads: bool,
    calls: Vec<(&'static str, usize)>,
}

impl Sink for FileSink {
    fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let count = slices.iter().map(|slice| slice.len()).sum();
        self.calls.push(("bytes", count));
        Ok(count)
    }

    fn write_before_file(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let count = slices.iter().map(|slice| slice.len()).sum();
        self.calls.push(("bytes before a file", count));
        Ok(count)
    }

    fn send_file(&mut self, range: &FileRange, most: usize) -> io::Result<Option<usize>> {
        assert!(range.len() >= most as u64);
        if self.reads {
            return Ok(None);
        }
        self.calls.push(("file", most));
        Ok(Some(most))
    }
}

/// Returns a range of an open file, which is not read.
fn file_range(len: u64) -> FileRange {
    let own = std::env::current_exe().unwrap();
    FileRange::new(std::fs::File::open(own).unwrap(), 0..len)
}

fn push_file(queue: &mut WriteQueue, len: u64) -> Completion<()> {
    let (promise, done) = promise();
    let marks = WaterMarks::default();
    queue
        .push_file(file_range(len), Some(promise), &marks)
        .unwrap();
    done
}

#[test]
fn a_turn_sends_a_bounded_part_of_a_file() {
    let mut queue = WriteQueue::new();
    let sent = push_file(&mut queue, 1 << 40);
    queue.flush();
    let mut sink = FileSink::default();
    assert_eq!(queue.drain(&mut sink, WRITE_SPIN).unwrap(), Drained::Spent);
    assert!(queue.written() <= 2 * 1024 * 1024, "{}", queue.written());
    assert_eq!(sink.calls.len(), WRITE_SPIN);
    assert_eq!(queue.file_bytes() as u64, (1 << 40) - queue.written());
    assert!(!sent.is_done() && queue.pending() == FILE_ENTRY);
}

#[test]
fn bytes_and_files_alternate_and_each_completes_in_its_place() {
    let mut queue = WriteQueue::new();
    let done = [
        push(&mut queue, "ab"),
        push(&mut queue, "c"),
        push_file(&mut queue, 10),
        push_file(&mut queue, 0),
        push(&mut queue, "de"),
        push_file(&mut queue, 20),
        push(&mut queue, "f"),
    ];
    queue.flush();
    let mut sink = FileSink::default();
    assert_eq!(queue.drain(&mut sink, 16).unwrap(), Drained::All);
    let before = "bytes before a file";
    let expected = [
        (before, 3),
        ("file", 10),
        (before, 2),
        ("file", 20),
        ("bytes", 1),
    ];
    assert_eq!(sink.calls, expected);
    assert!(done.iter().all(Completion::is_done));
    assert_eq!((queue.pending(), queue.file_bytes()), (0, 0));
    assert_eq!(queue.written(), 36);
    assert!(queue.rest.is_none(), "an empty queue holds no memory");
}

#[test]
fn a_sink_that_cannot_send_files_gets_chunks_that_are_read_once() {
    let mut queue = WriteQueue::new();
    let sent = push_file(&mut queue, 100);
    queue.flush();
    let mut sink = FileSink {
        reads: true,
        ..FileSink::default()
    };
    for (chunk, left) in [(60, 100), (40, 40)] {
        assert_eq!(queue.drain(&mut sink, 16).unwrap(), Drained::NeedsRead);
        assert_eq!(queue.begin_read().unwrap().len(), left);
        assert!(queue.begin_read().is_none(), "it is being read");
        assert_eq!(queue.drain(&mut sink, 16).unwrap(), Drained::NeedsRead);
        queue.end_read(Bytes::from(vec![7; chunk]));
        assert!(queue.begin_read().is_none(), "it waits to be sent");
    }
    assert_eq!(queue.drain(&mut sink, 16).unwrap(), Drained::All);
    assert_eq!(sink.calls, [("bytes", 60), ("bytes", 40)]);
    assert!(sent.is_done() && queue.is_empty());
    let lost = push_file(&mut queue, 100);
    queue.flush();
    queue.fail_all(&Failure::cancelled());
    assert!(lost.is_done() && queue.file_bytes() == 0 && queue.rest.is_none());
}
