//! Files on an encrypted connection: read by a pool, chunk by chunk, and encrypted in order.
//!
//! [`HeldFiles`] exists from the first written file until everything behind the last one is
//! encrypted. Meanwhile it keeps all writes that follow the first file, in order. At most two chunks
//! are in memory: one is being sent, and one is being read or was read.
//!
//! Each file holds room for one chunk in the channel's accounting, so that its records are never
//! refused. All of its bytes count for the water marks.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tidegate_core::internal::lock;
use tidegate_promise::{Failure, Promise, promise};

use super::promises::complete;
use super::{End, State, Tls, counts};
use crate::channel::{CHUNK, FileRange, ring_timer};
use crate::errors::NetError;
use crate::pipeline::{HandlerContext, OutboundContext};

/// The key of the timer that says that a chunk was read.
const CHUNK_READ: u64 = 0;
/// The key of the timer that says that the records of a chunk were sent.
const CHUNK_SENT: u64 = 1;

/// The writes from the first file on.
#[derive(Debug, Default)]
pub(super) struct HeldFiles {
    entries: VecDeque<HeldEntry>,
    /// How many entries may be sent.
    flushed: usize,
    /// The size that the entries hold in the channel's accounting.
    held_bytes: usize,
    /// The bytes of files that count for the water marks.
    file_bytes: u128,
    /// `true` if the first entry is a file that is being sent.
    begun: bool,
    /// A chunk of the first file that waits until the one before it is sent.
    chunk: Option<Bytes>,
    /// `true` if a chunk is being read; if the records of one are being sent.
    reads: bool,
    sends: bool,
    /// The result of a read, on its way from the pool.
    read: Arc<Mutex<Option<io::Result<Bytes>>>>,
}

#[derive(Debug)]
struct HeldEntry {
    what: HeldData,
    /// The size that the entry holds in the channel's accounting.
    counts: usize,
    promise: Option<Promise<()>>,
}

#[derive(Debug)]
enum HeldData {
    Bytes(Bytes),
    /// What is not read yet.
    File(FileRange),
}

impl HeldFiles {
    /// Adds bytes behind a file.
    pub(super) fn push_bytes(&mut self, bytes: Bytes, promise: Option<Promise<()>>) {
        let counts = counts(bytes.len());
        self.push(HeldData::Bytes(bytes), counts, promise);
    }

    fn push(&mut self, what: HeldData, counts: usize, promise: Option<Promise<()>>) {
        self.held_bytes += counts;
        self.entries.push_back(HeldEntry {
            what,
            counts,
            promise,
        });
    }

    fn pop(&mut self) -> Option<HeldEntry> {
        let entry = self.entries.pop_front()?;
        self.flushed = self.flushed.saturating_sub(1);
        self.held_bytes -= entry.counts;
        Some(entry)
    }

    /// Marks everything added so far to be sent.
    pub(super) fn flush(&mut self) {
        self.flushed = self.entries.len();
    }

    fn starts_with_bytes(&self) -> bool {
        let first = self.entries.front();
        first.is_some_and(|entry| matches!(entry.what, HeldData::Bytes(_)))
    }

    fn take_chunk(&mut self, chunk: Bytes) {
        if let Some(HeldData::File(range)) = self.entries.front_mut().map(|first| &mut first.what) {
            range.advance(chunk.len() as u64);
        }
        (self.chunk, self.reads) = (Some(chunk), false);
    }

    fn take_read(&self) -> Option<io::Result<Bytes>> {
        let mut read = lock(&self.read);
        read.take()
    }
}

impl Tls {
    /// Holds a range of a file until it is flushed.
    pub(super) fn hold_file(&mut self, range: FileRange, ctx: &mut OutboundContext<'_, Self>) {
        let promise = ctx.take_promise();
        let chunk = usize::try_from(range.len()).map_or(CHUNK, |len| len.min(CHUNK));
        let room = counts(chunk);
        if let Err(why) = self.accepts().and_then(|()| ctx.hold(room)) {
            return Self::refuse(why, promise, ctx);
        }
        ctx.hold_file(range.len());
        let files = self.files.get_or_insert_default();
        files.file_bytes += u128::from(range.len());
        files.push(HeldData::File(range), room, promise);
    }

    /// Sends as much as possible of the flushed files, and of the bytes behind them.
    pub(super) fn send_files(&mut self, ctx: &mut HandlerContext<'_>) {
        while self.state == State::Open
            && let Some(files) = &mut self.files
        {
            if files.starts_with_bytes() {
                self.send_bytes_behind(ctx);
            } else if !files.entries.is_empty() {
                if files.flushed == 0 || !self.send_first(ctx) {
                    return;
                }
            } else if files.sends {
                return;
            } else {
                self.files = None;
                if let Some(end) = self.end.take() {
                    self.finish_end(end, ctx);
                }
            }
        }
    }

    /// Moves the bytes before the next file to the other held data. Encrypts them if they were
    /// flushed.
    fn send_bytes_behind(&mut self, ctx: &mut HandlerContext<'_>) {
        let Some(files) = &mut self.files else {
            return;
        };
        let flushed = files.flushed > 0;
        while files.starts_with_bytes()
            && (files.flushed > 0) == flushed
            && let Some(entry) = files.pop()
        {
            if let HeldData::Bytes(bytes) = entry.what {
                self.held_bytes += entry.counts;
                self.held.push((bytes, entry.promise));
            }
        }
        if flushed {
            let (bytes, promise) = self.encrypt(|spent| ctx.give_back(spent));
            ctx.release(std::mem::take(&mut self.held_bytes));
            ctx.write_bytes(bytes, promise);
            ctx.flush();
        }
    }

    /// Sends a part of the first file. Returns `false` if it has to wait.
    fn send_first(&mut self, ctx: &mut HandlerContext<'_>) -> bool {
        let Some(files) = &mut self.files else {
            return false;
        };
        let Some(HeldEntry {
            what: HeldData::File(range),
            promise,
            ..
        }) = files.entries.front_mut()
        else {
            return false;
        };
        if !std::mem::replace(&mut files.begun, true)
            && promise.as_ref().is_some_and(|one| !one.set_uncancellable())
        {
            let unsent = u128::from(range.len());
            files.file_bytes -= unsent;
            ctx.release_file(unsent);
            self.end_file(ctx);
            return true;
        }
        if range.is_empty() && files.chunk.is_none() && !files.reads {
            // An empty range: it completes in its place.
            let promise = promise.take();
            ctx.write_bytes(Bytes::new(), promise);
            ctx.flush();
            self.end_file(ctx);
            return true;
        }
        if files.chunk.is_none() && !files.reads {
            files.reads = true;
            let read = Arc::clone(&files.read);
            let (channel, id) = ctx.ring_target();
            range.clone().read_in_pool(move |chunk| {
                *lock(&read) = Some(chunk);
                ring_timer(&channel, id, CHUNK_READ);
            });
        }
        if files.sends {
            return false;
        }
        let Some(chunk) = files.chunk.take() else {
            return false;
        };
        let last = range.is_empty();
        let promise = promise.take_if(|_| last);
        files.sends = true;
        files.file_bytes -= chunk.len() as u128;
        self.send_chunk(&chunk, promise, ctx);
        if last {
            self.end_file(ctx);
        }
        true
    }

    /// Encrypts a chunk. When its records are sent, `promise` completes and the next chunk follows.
    fn send_chunk(
        &mut self,
        chunk: &[u8],
        last_promise: Option<Promise<()>>,
        ctx: &mut HandlerContext<'_>,
    ) {
        ctx.release_file(chunk.len() as u128);
        let (sent, done) = promise::<()>();
        let (channel, id) = ctx.ring_target();
        done.finally(move |outcome| {
            if let Some(promise) = last_promise {
                complete(promise, outcome);
            }
            ring_timer(&channel, id, CHUNK_SENT);
        });
        let records = self.encrypt_chunk(chunk);
        ctx.write_bytes(records, Some(sent));
        ctx.flush();
    }

    /// Encrypts a part of a file.
    fn encrypt_chunk(&mut self, chunk: &[u8]) -> Bytes {
        if let Some(tls) = &mut self.tls {
            // Without a limit one call takes everything.
            let _ = tls.writer().write_all(chunk);
        }
        self.cipher(chunk.len())
    }

    /// Removes the first file, all of which is on its way, or which was cancelled.
    fn end_file(&mut self, ctx: &mut HandlerContext<'_>) {
        if let Some(files) = &mut self.files {
            files.begun = false;
            let file = files.pop();
            ctx.release(file.map_or(0, |file| file.counts));
        }
    }

    /// Goes on when a chunk was read or sent.
    pub(super) fn chunk_event(&mut self, key: u64, ctx: &mut HandlerContext<'_>) {
        let Some(files) = &mut self.files else {
            return;
        };
        if key == CHUNK_SENT {
            files.sends = false;
        } else {
            match files.take_read() {
                Some(Ok(chunk)) => files.take_chunk(chunk),
                Some(Err(why)) => return self.fail_file(why, ctx),
                None => {}
            }
        }
        self.send_files(ctx);
    }

    /// Closes the channel, because a file cannot be read to its end. Sends no `close_notify`: the
    /// peer must not take the part for the whole.
    fn fail_file(&mut self, why: io::Error, ctx: &mut HandlerContext<'_>) {
        let why = why
            .downcast::<NetError>()
            .map_or_else(Failure::new, Failure::new);
        self.state = State::Over;
        ctx.set_close_cause(why.clone());
        self.give_up(&Failure::new(NetError::Closed(Some(why.clone()))), ctx);
        ctx.fire_error(why);
        ctx.close();
    }

    /// Fails the files that will not be sent, and the bytes behind them.
    pub(super) fn give_up_files(&mut self, why: &Failure, ctx: &mut HandlerContext<'_>) {
        if let Some(files) = self.files.take() {
            ctx.release(files.held_bytes);
            ctx.release_file(files.file_bytes);
            for entry in files.entries {
                if let Some(promise) = entry.promise {
                    let _ = promise.fail(why.clone());
                }
            }
        }
    }

    /// Ends the connection or its sending half, after all files.
    fn finish_end(&mut self, end: End, ctx: &mut HandlerContext<'_>) {
        let bye = self.send_close_notify();
        if !bye.is_empty() {
            ctx.write_bytes(bye, None);
            ctx.flush();
        }
        match end {
            End::Close => ctx.close_when_flushed(),
            End::ShutOutput => ctx.shutdown_output(),
        }
    }
}
