//! The data that a channel has to send, in order and with exact accounting.
//!
//! The queue does no I/O of its own: one vectored write per flush goes into a [`Sink`], which a
//! test can implement.
//!
//! # Invariants
//!
//! * `pending` is the sum of the counted sizes of the entries.
//! * The first `flushed` entries may be written; the others wait for a flush.
//! * Every entry ends once: written, failed, or skipped because its promise was cancelled.
//! * A queue without entries holds no memory: that of a longer queue goes back to the thread.
//! * A range of a file is an entry without bytes; `files` has what is left of it. So is a flush
//!   with a promise; `marks` has that promise.

mod files;
mod marks;

use std::cell::Cell;
use std::collections::VecDeque;
use std::error::Error;
use std::fmt;
use std::io::{self, IoSlice};

use bytes::{Buf, Bytes};
use tidegate_promise::{Failure, Promise};

pub(crate) use self::files::FILE_ENTRY;
use self::files::Files;
use super::file_range::FileRange;
use super::waiters::Waiters;

/// Size that an entry counts for in addition to its bytes.
pub(crate) const ENTRY_OVERHEAD: usize = 96;
/// Maximum number of writes per flush, before other channels get their turn.
pub(crate) const WRITE_SPIN: usize = 16;
/// Maximum number of slices in one write.
const MOST_SLICES: usize = 1024;
/// Number of slices that fit into an array on the stack.
const FEW_SLICES: usize = 16;
/// Maximum capacity of the memory for entries that a thread keeps for the next queue.
const MOST_KEPT: usize = 256;

thread_local! {
    /// Memory for the entries behind the first, while no queue on this thread uses it.
    static SPARE: Cell<Option<Box<Rest>>> = const { Cell::new(None) };
}

/// The destination of a queue's bytes.
pub(crate) trait Sink {
    /// Writes some of `slices`, in order. Returns the number of bytes written.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::WouldBlock`] if it can take none now; otherwise the error of the
    /// destination.
    fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Writes some of `bytes`. The same as [`Sink::write`] with one slice; for sinks with a faster
    /// way.
    ///
    /// # Errors
    ///
    /// As for [`Sink::write`].
    #[inline]
    fn write_one(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write(&[IoSlice::new(bytes)])
    }

    /// Writes some of `slices`, like [`Sink::write`]. A file follows at once, so a part of a packet
    /// may wait for it.
    ///
    /// # Errors
    ///
    /// As for [`Sink::write`].
    fn write_before_file(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.write(slices)
    }

    /// Sends at most `most` bytes from the start of `range`. Returns how many were sent, none at the
    /// end of the file; `None` if the sink cannot send files, so that they have to be read.
    ///
    /// # Errors
    ///
    /// As for [`Sink::write`].
    fn send_file(&mut self, range: &FileRange, most: usize) -> io::Result<Option<usize>> {
        let _ = (range, most);
        Ok(None)
    }

    /// Takes bytes that were written as a whole, to use their memory again.
    fn written(&mut self, bytes: Bytes) {
        drop(bytes);
    }
}

/// Limits for the bytes that wait to be sent.
///
/// ```
/// use tidegate_net::WaterMarks;
///
/// let marks = WaterMarks::new(1024, 4096, 65_536)?;
/// assert_eq!(marks.high(), 4096);
/// assert!(WaterMarks::new(2, 1, 3).is_err());
/// # Ok::<(), tidegate_net::WaterMarksError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaterMarks {
    low: usize,
    high: usize,
    cap: usize,
}

impl WaterMarks {
    /// The default low-water mark.
    pub const DEFAULT_LOW: usize = 32 * 1024;
    /// The default high-water mark.
    pub const DEFAULT_HIGH: usize = 64 * 1024;
    /// The default hard cap.
    pub const DEFAULT_CAP: usize = 16 * 1024 * 1024;

    /// Creates limits: a channel is unwritable above `high` and writable again below `low`; a write
    /// above `cap` is refused.
    ///
    /// # Errors
    ///
    /// [`WaterMarksError`] unless low ≤ high ≤ cap.
    pub fn new(low: usize, high: usize, cap: usize) -> Result<Self, WaterMarksError> {
        if low > high || high > cap {
            return Err(WaterMarksError { low, high, cap });
        }
        Ok(Self { low, high, cap })
    }

    /// Returns the mark below which a channel is writable again.
    pub fn low(&self) -> usize {
        self.low
    }

    /// Returns the mark above which a channel is not writable.
    pub fn high(&self) -> usize {
        self.high
    }

    /// Returns the limit above which a write is refused.
    pub fn cap(&self) -> usize {
        self.cap
    }
}

impl Default for WaterMarks {
    fn default() -> Self {
        Self {
            low: Self::DEFAULT_LOW,
            high: Self::DEFAULT_HIGH,
            cap: Self::DEFAULT_CAP,
        }
    }
}

/// The error for water marks that contradict each other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct WaterMarksError {
    /// The requested low mark.
    pub low: usize,
    /// The requested high mark.
    pub high: usize,
    /// The requested cap.
    pub cap: usize,
}

impl fmt::Display for WaterMarksError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { low, high, cap } = self;
        write!(
            f,
            "water marks must be low ≤ high ≤ cap, and were {low}, {high} and {cap}"
        )
    }
}

impl Error for WaterMarksError {}

tidegate_core::debug_as_display!(WaterMarksError);

/// Result of writing a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drained {
    /// All flushed data is written.
    All,
    /// The sink accepts no more for now.
    Blocked,
    /// The allowed calls are used up, and flushed data is left.
    Spent,
    /// The next bytes have to be read from a file first.
    NeedsRead,
}

/// A queue of bytes to send.
#[derive(Debug, Default)]
pub(crate) struct WriteQueue {
    /// The first entry, so that a queue of one entry allocates nothing.
    front: Option<Entry>,
    /// The other entries. Rarely there, so that an idle connection holds no memory for them.
    rest: Option<Box<Rest>>,
    flushed: usize,
    pending: usize,
    /// Bytes written since the queue was created.
    written: u64,
}

/// What most queues do not have: entries behind the first, files, and promises of flushes.
#[derive(Debug, Default)]
struct Rest {
    entries: VecDeque<Entry>,
    files: Files,
    marks: VecDeque<Waiters>,
}

#[derive(Debug)]
struct Entry {
    bytes: Bytes,
    /// Size that was counted when the entry was added.
    counts: usize,
    promise: Option<Promise<()>>,
}

/// A write that was refused because it would exceed the cap.
#[derive(Debug)]
pub(crate) struct Overfull {
    /// The bytes to write.
    pub bytes: Bytes,
    /// Its promise, if it had one.
    pub promise: Option<Promise<()>>,
}

impl WriteQueue {
    /// Creates an empty queue.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds `bytes` at the end, to be written after the next flush.
    ///
    /// # Errors
    ///
    /// Bytes and promise, if the cap would be exceeded.
    #[inline]
    pub(crate) fn push(
        &mut self,
        bytes: Bytes,
        promise: Option<Promise<()>>,
        marks: &WaterMarks,
    ) -> Result<(), Overfull> {
        let counts = bytes.len() + ENTRY_OVERHEAD;
        if self.pending + counts > marks.cap {
            return Err(Overfull { bytes, promise });
        }
        self.pending += counts;
        let entry = Entry {
            bytes,
            counts,
            promise,
        };
        if self.front.is_some() {
            self.push_behind(entry);
        } else {
            self.front = Some(entry);
        }
        Ok(())
    }

    #[inline(never)]
    fn push_behind(&mut self, entry: Entry) {
        self.rest_mut().entries.push_back(entry);
    }

    fn rest_mut(&mut self) -> &mut Rest {
        self.rest.get_or_insert_with(|| {
            let spare = SPARE.try_with(Cell::take).ok().flatten();
            spare.unwrap_or_default()
        })
    }

    /// Marks everything added so far to be written. Removes the entries that were cancelled.
    #[inline]
    pub(crate) fn flush(&mut self) {
        match &self.front {
            None => {}
            // One entry that cannot be cancelled: nearly always the case.
            Some(front) if self.rest.is_none() && front.promise.is_none() => self.flushed = 1,
            Some(_) => self.flush_many(),
        }
    }

    fn flush_many(&mut self) {
        let mut at = self.flushed;
        self.flushed = self.len();
        while at < self.flushed {
            let promise = self.get(at).promise.as_ref();
            if promise.is_none_or(Promise::set_uncancellable) {
                at += 1;
                continue;
            }
            self.forget_file(at);
            let skipped = self.take(at);
            self.pending -= skipped.counts;
            self.flushed -= 1;
        }
    }

    /// Writes the flushed data with at most `spins` calls.
    ///
    /// # Errors
    ///
    /// The error of the sink, except that it would block.
    #[cfg(test)]
    pub(crate) fn drain<S: Sink + ?Sized>(
        &mut self,
        sink: &mut S,
        spins: usize,
    ) -> io::Result<Drained> {
        self.drain_on(None, sink, spins)
    }

    /// Returns the flushed data if it is one entry without a promise.
    #[inline(always)]
    fn one(&self) -> Option<&Entry> {
        if self.flushed != 1 || self.rest.is_some() {
            return None;
        }
        let front = self.front.as_ref()?;
        (front.promise.is_none() && !front.bytes.is_empty()).then_some(front)
    }

    /// Writes the flushed data if it is one entry without a promise and the sink takes it as a
    /// whole, which is nearly always the case. Returns the bytes that were written.
    ///
    /// # Errors
    ///
    /// The result of the call, if one was made: [`WriteQueue::drain_on`] continues from there.
    #[inline(always)]
    pub(crate) fn drain_one<S: Sink + ?Sized>(
        &mut self,
        sink: &mut S,
    ) -> Result<Bytes, Option<io::Result<usize>>> {
        let one = self.one().ok_or(None)?;
        match sink.write_one(&one.bytes) {
            Ok(count) if count == one.bytes.len() => {}
            other => return Err(Some(other)),
        }
        let done = self.front.take().ok_or(None)?;
        self.written += done.bytes.len() as u64;
        self.pending -= done.counts;
        self.flushed = 0;
        Ok(done.bytes)
    }

    /// Writes the flushed data, after a first call with the result `first`.
    pub(crate) fn drain_on<S: Sink + ?Sized>(
        &mut self,
        mut first: Option<io::Result<usize>>,
        sink: &mut S,
        spins: usize,
    ) -> io::Result<Drained> {
        for _ in 0..spins {
            if self.flushed == 0 {
                return Ok(Drained::All);
            }
            let wrote = match first.take() {
                Some(wrote) => wrote,
                None if self.starts_with_file() => match self.write_file(sink) {
                    Ok(true) => Ok(0),
                    Ok(false) => return Ok(Drained::NeedsRead),
                    Err(why) => Err(why),
                },
                None => self.write_once(sink),
            };
            match wrote {
                Ok(count) => self.wrote(count, sink),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Drained::Blocked);
                }
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => return Err(why),
            }
        }
        let all = self.flushed == 0;
        Ok(if all { Drained::All } else { Drained::Spent })
    }

    fn write_once<S: Sink + ?Sized>(&self, sink: &mut S) -> io::Result<usize> {
        match &self.front {
            // Nothing to write. A socket whose sending half is closed would fail even for that.
            Some(front) if front.bytes.is_empty() => Ok(0),
            Some(front) if self.flushed == 1 => sink.write_one(&front.bytes),
            Some(front) => self.write_many(front, sink),
            None => Ok(0),
        }
    }

    fn write_many<S: Sink + ?Sized>(&self, front: &Entry, sink: &mut S) -> io::Result<usize> {
        let (count, before_file) = self.count_before_file();
        let slices = std::iter::once(front)
            .chain(self.rest.iter().flat_map(|rest| rest.entries.iter()))
            .map(|entry| IoSlice::new(&entry.bytes));
        let mut few = [IoSlice::new(&[]); FEW_SLICES];
        let many: Vec<_>;
        let slices = if count <= FEW_SLICES {
            for (slot, slice) in few.iter_mut().zip(slices.take(count)) {
                *slot = slice;
            }
            &few[..count]
        } else {
            many = slices.take(count).collect();
            &many[..]
        };
        match before_file {
            false => sink.write(slices),
            true => sink.write_before_file(slices),
        }
    }

    /// Removes the first `count` bytes, which are written: completes whole entries and shortens the
    /// next one.
    fn wrote<S: Sink + ?Sized>(&mut self, mut count: usize, sink: &mut S) {
        self.written += count as u64;
        while self.flushed > 0
            && let Some(front) = &mut self.front
        {
            let left = front.bytes.len();
            if left > count {
                front.bytes.advance(count);
                return;
            }
            if front.is_file() {
                return;
            }
            count -= left;
            let done = self.take(0);
            self.flushed -= 1;
            self.pending -= done.counts;
            if done.is_mark() {
                let promises = self.take_mark();
                promises.into_iter().for_each(|one| drop(one.succeed(())));
                continue;
            }
            sink.written(done.bytes);
            if let Some(promise) = done.promise {
                let _ = promise.succeed(());
            }
        }
    }

    /// Removes every entry and fails its promise with `cause`.
    pub(crate) fn fail_all(&mut self, cause: &Failure) {
        self.flushed = 0;
        while self.front.is_some() {
            let failed = self.take(0);
            self.pending -= failed.counts;
            let of_mark = match failed.is_mark() {
                true => self.take_mark(),
                false => Vec::new(),
            };
            for promise in failed.promise.into_iter().chain(of_mark) {
                let _ = promise.fail(cause.clone());
            }
        }
        self.forget_files();
    }

    /// Returns the number of bytes that wait, including the overhead of their entries.
    #[inline]
    pub(crate) fn pending(&self) -> usize {
        self.pending
    }

    /// Returns the number of entries that wait.
    pub(crate) fn len(&self) -> usize {
        let rest = self.rest.as_ref().map_or(0, |rest| rest.entries.len());
        usize::from(self.front.is_some()) + rest
    }

    /// Returns `true` if nothing waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.front.is_none()
    }

    /// Returns `true` if flushed data waits.
    #[inline]
    pub(crate) fn has_flushed(&self) -> bool {
        self.flushed > 0
    }

    /// Returns the number of bytes written since the queue was created.
    #[inline]
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    fn get(&self, at: usize) -> &Entry {
        let entry = match (at.checked_sub(1), &self.rest) {
            (None, _) => self.front.as_ref(),
            (Some(at), Some(rest)) => rest.entries.get(at),
            (Some(_), None) => None,
        };
        entry.expect("the entry is in the queue")
    }

    fn take(&mut self, at: usize) -> Entry {
        let taken = match &mut self.rest {
            None => self.front.take(),
            Some(_) => self.take_of_many(at),
        };
        taken.expect("the entry is in the queue")
    }

    fn take_of_many(&mut self, at: usize) -> Option<Entry> {
        let rest = self.rest.as_deref_mut()?;
        let taken = match at.checked_sub(1) {
            None => std::mem::replace(&mut self.front, rest.entries.pop_front()),
            Some(at) => rest.entries.remove(at),
        };
        if rest.is_unused() {
            self.return_memory();
        }
        taken
    }

    /// Returns the memory for entries behind the first to the thread: an idle connection holds none
    /// for data that it once had to send.
    fn return_memory(&mut self) {
        if let Some(rest) = self.rest.take()
            && rest.entries.capacity() <= MOST_KEPT
        {
            // The thread may be ending, and its spare memory may be gone.
            let _ = SPARE.try_with(|spare| spare.set(Some(rest)));
        }
    }
}

impl Rest {
    fn is_unused(&self) -> bool {
        self.entries.is_empty() && self.files.is_empty() && self.marks.is_empty()
    }
}

impl Entry {
    fn is_file(&self) -> bool {
        self.counts == FILE_ENTRY && self.bytes.is_empty()
    }
}

#[cfg(test)]
mod tests;
