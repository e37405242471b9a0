//! Ranges of files in a write queue.
//!
//! The sink sends a file itself if it can. Otherwise the queue asks for one chunk at a time, which a
//! thread of the readers' pool reads.
//!
//! # Invariants
//!
//! * `queued` has one file for each entry of a file, in the order of the entries.
//! * Only the file of the first entry has a chunk or is being read.
//! * The bytes of files do not count as pending, since they are not in memory. `bytes` counts them
//!   for the water marks.

use std::collections::VecDeque;
use std::io;

use bytes::{Buf, Bytes};
use tidegate_promise::Promise;

use super::super::file_range::{FileRange, truncated};
use super::{ENTRY_OVERHEAD, Entry, Sink, WaterMarks, WriteQueue};

/// Size that the entry of a file counts for. It differs from that of an entry without bytes.
pub(crate) const FILE_ENTRY: usize = ENTRY_OVERHEAD + 32;
/// Maximum number of bytes of a file that one call sends. A flush makes at most
/// [`WRITE_SPIN`](super::WRITE_SPIN) calls.
const MOST_AT_ONCE: usize = 128 * 1024;

/// The files of a queue.
#[derive(Debug, Default)]
pub(super) struct Files {
    queued: VecDeque<QueuedFile>,
    /// Unsent bytes of files, in the queue and in handlers. The sum of ranges may not fit into 64 bits.
    bytes: u128,
    /// `true` if a part of a file was sent since the progress was last checked.
    progress: bool,
}

impl Files {
    pub(super) fn is_empty(&self) -> bool {
        self.queued.is_empty() && self.bytes == 0
    }
}

#[derive(Debug)]
struct QueuedFile {
    /// What is neither sent nor in `chunk`.
    range: FileRange,
    /// Bytes that were read and are not sent yet.
    chunk: Bytes,
    is_read: bool,
}

impl WriteQueue {
    /// Adds a range of a file at the end, to be sent after the next flush.
    ///
    /// # Errors
    ///
    /// The promise, if the cap would be exceeded.
    pub(crate) fn push_file(
        &mut self,
        range: FileRange,
        promise: Option<Promise<()>>,
        marks: &WaterMarks,
    ) -> Result<(), Option<Promise<()>>> {
        if self.pending + FILE_ENTRY > marks.cap {
            return Err(promise);
        }
        self.pending += FILE_ENTRY;
        let files = &mut self.rest_mut().files;
        files.bytes += u128::from(range.len());
        files.queued.push_back(QueuedFile {
            range,
            chunk: Bytes::new(),
            is_read: false,
        });
        let entry = Entry {
            bytes: Bytes::new(),
            counts: FILE_ENTRY,
            promise,
        };
        if self.front.is_some() {
            self.push_behind(entry);
        } else {
            self.front = Some(entry);
        }
        Ok(())
    }

    /// Counts bytes of a file that a handler sends later.
    #[cfg(feature = "tls")]
    pub(crate) fn hold_file(&mut self, bytes: u64) {
        if bytes > 0 {
            self.rest_mut().files.bytes += u128::from(bytes);
        }
    }

    /// Stops counting bytes of [`WriteQueue::hold_file`].
    #[cfg(feature = "tls")]
    pub(crate) fn release_file(&mut self, bytes: u128) {
        if let Some(rest) = &mut self.rest {
            rest.files.bytes = rest.files.bytes.saturating_sub(bytes);
            rest.files.progress = true;
            if rest.is_unused() {
                self.return_memory();
            }
        }
    }

    /// Returns the number of unsent bytes of files.
    #[inline]
    pub(crate) fn file_bytes(&self) -> usize {
        let rest = self.rest.as_ref();
        rest.map_or(0, |rest| {
            usize::try_from(rest.files.bytes).unwrap_or(usize::MAX)
        })
    }

    /// Returns `true` if files are being sent, and a part of them was sent since the last call.
    pub(crate) fn take_file_progress(&mut self) -> bool {
        let files = self.rest.as_mut().map(|rest| &mut rest.files);
        files.is_some_and(|files| std::mem::take(&mut files.progress) && files.bytes > 0)
    }

    #[inline]
    pub(super) fn starts_with_file(&self) -> bool {
        self.rest.is_some() && self.front.as_ref().is_some_and(Entry::is_file)
    }

    /// Returns how many flushed entries one write may have, and whether a file follows them.
    pub(super) fn count_before_file(&self) -> (usize, bool) {
        let most = self.flushed.min(super::MOST_SLICES);
        match &self.rest {
            Some(rest) if !rest.files.queued.is_empty() => {
                let behind = rest.entries.iter().take(most - 1);
                let count = 1 + behind.take_while(|entry| !entry.is_file()).count();
                (count, count < most)
            }
            _ => (most, false),
        }
    }

    /// Sends a part of the file that is first in the queue. Returns `false` if it has to be read
    /// first.
    ///
    /// # Errors
    ///
    /// The error of the sink, or the file is shorter than its range.
    pub(super) fn write_file<S: Sink + ?Sized>(&mut self, sink: &mut S) -> io::Result<bool> {
        let Some(rest) = &mut self.rest else {
            return Ok(true);
        };
        let files = &mut rest.files;
        let Some(file) = files.queued.front_mut() else {
            return Ok(true);
        };
        let left = file.range.len();
        let sent = if !file.chunk.is_empty() {
            let sent = sink.write_one(&file.chunk)?;
            file.chunk.advance(sent);
            sent
        } else if left == 0 {
            0
        } else {
            let most = usize::try_from(left).map_or(MOST_AT_ONCE, |left| left.min(MOST_AT_ONCE));
            let Some(sent) = sink.send_file(&file.range, most)? else {
                return Ok(false);
            };
            if sent == 0 {
                return Err(truncated(left));
            }
            file.range.advance(sent as u64);
            sent
        };
        files.bytes = files.bytes.saturating_sub(sent as u128);
        files.progress = true;
        self.written += sent as u64;
        if file.chunk.is_empty() && file.range.is_empty() {
            self.finish_file();
        }
        Ok(true)
    }

    fn finish_file(&mut self) {
        if let Some(rest) = &mut self.rest {
            drop(rest.files.queued.pop_front());
        }
        let done = self.take(0);
        self.flushed -= 1;
        self.pending -= done.counts;
        if self.rest.as_ref().is_some_and(|rest| rest.is_unused()) {
            self.return_memory();
        }
        if let Some(promise) = done.promise {
            let _ = promise.succeed(());
        }
    }

    /// Returns what is left of the first file, if a chunk of it has to be read next.
    pub(crate) fn begin_read(&mut self) -> Option<FileRange> {
        if !self.starts_with_file() {
            return None;
        }
        let file = self.rest.as_mut()?.files.queued.front_mut()?;
        if file.is_read || !file.chunk.is_empty() || file.range.is_empty() {
            return None;
        }
        file.is_read = true;
        Some(file.range.clone())
    }

    /// Adds the bytes that were read for [`WriteQueue::begin_read`].
    pub(crate) fn end_read(&mut self, chunk: Bytes) {
        let files = self.rest.as_mut().map(|rest| &mut rest.files);
        if let Some(file) = files.and_then(|files| files.queued.front_mut())
            && std::mem::take(&mut file.is_read)
        {
            file.range.advance(chunk.len() as u64);
            file.chunk = chunk;
        }
    }

    /// Removes the file of the entry `at`, if it is one, because its write was cancelled.
    pub(super) fn forget_file(&mut self, at: usize) {
        if self.rest.is_none() || !self.get(at).is_file() {
            return;
        }
        let before = (0..at).filter(|at| self.get(*at).is_file()).count();
        if let Some(rest) = &mut self.rest
            && let Some(file) = rest.files.queued.remove(before)
        {
            let unsent = u128::from(file.range.len());
            rest.files.bytes = rest.files.bytes.saturating_sub(unsent);
        }
    }

    /// Removes all files, after their entries.
    pub(super) fn forget_files(&mut self) {
        if let Some(rest) = &mut self.rest {
            rest.files = Files::default();
            self.return_memory();
        }
    }
}
