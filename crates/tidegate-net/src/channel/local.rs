//! Two connected ends in the memory of one process, like a socket pair. Each direction is a pipe.
//!
//! An end belongs to a channel, which gets a request when it can read or write, or to threads that
//! wait at the pipe: see [`LocalSocket`](crate::local::LocalSocket).

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::internal::{SignalBlock, lock, unpoisoned};

use super::channel_request::ChannelRequest;
use super::shared::Shared;

/// Bytes that one direction holds before its writer has to wait.
const CAPACITY: usize = 256 * 1024;

/// One end of a pair.
#[derive(Debug)]
pub(crate) struct LocalEnd {
    mine: Arc<LocalPipe>,
    theirs: Arc<LocalPipe>,
}

/// The pipe of one direction.
#[derive(Debug, Default)]
struct LocalPipe {
    state: Mutex<PipeState>,
    /// Wakes the threads that wait at the pipe.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct PipeState {
    chunks: VecDeque<Bytes>,
    held: usize,
    /// The writer has closed its end.
    shut: bool,
    /// The writer has given its end up: its reader gets an error after the bytes.
    reset: bool,
    /// The reader is gone.
    gone: bool,
    /// The writer waits for room.
    blocked: bool,
    reader: Option<Weak<SignalBlock<Shared>>>,
    writer: Option<Weak<SignalBlock<Shared>>>,
    /// The address of the reader's end, if it has one.
    address: Option<SocketAddr>,
    /// The number of threads that wait at the pipe.
    waiting: usize,
}

impl LocalPipe {
    fn of(address: Option<SocketAddr>) -> Arc<Self> {
        let pipe = Self::default();
        pipe.lock().address = address;
        Arc::new(pipe)
    }

    fn lock(&self) -> MutexGuard<'_, PipeState> {
        lock(&self.state)
    }

    /// Wakes the threads that wait at the pipe.
    fn notify(&self, state: &PipeState) {
        if state.waiting > 0 {
            self.changed.notify_all();
        }
    }

    /// Blocks until `is_due`, for at most `patience`. Returns whether it is.
    fn wait(&self, patience: Option<Duration>, is_due: impl Fn(&PipeState) -> bool) -> bool {
        let mut state = self.lock();
        state.waiting += 1;
        let is_early = |state: &mut PipeState| !is_due(state);
        let mut state = match patience {
            Some(patience) => {
                let waited = self.changed.wait_timeout_while(state, patience, is_early);
                unpoisoned(waited).0
            }
            None => {
                let waited = self.changed.wait_while(state, is_early);
                unpoisoned(waited)
            }
        };
        state.waiting -= 1;
        is_due(&state)
    }
}

impl PipeState {
    /// Returns what a reader finds if there are no bytes: the end, an error, or nothing yet.
    fn without_bytes(&self) -> io::Result<()> {
        if self.reset {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        match self.shut {
            true => Ok(()),
            false => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn is_readable(&self) -> bool {
        self.shut || !self.chunks.is_empty()
    }

    fn is_writable(&self) -> bool {
        self.gone || self.held < CAPACITY
    }
}

/// Returns the two ends of a connection between these addresses, if it has any.
pub(crate) fn local_ends(
    first: Option<SocketAddr>,
    second: Option<SocketAddr>,
) -> (LocalEnd, LocalEnd) {
    let (one, other) = (LocalPipe::of(first), LocalPipe::of(second));
    let first = LocalEnd {
        mine: Arc::clone(&one),
        theirs: Arc::clone(&other),
    };
    let second = LocalEnd {
        mine: other,
        theirs: one,
    };
    (first, second)
}

/// Posts a request to the channel of an end. On the thread of its pinned loop it takes no signal: what
/// two ends of one loop send each other is then an event of the loop, as with sockets, and no work
/// that the shutdown of the loop would wait for.
fn post_to(target: Option<Weak<SignalBlock<Shared>>>, request: ChannelRequest) {
    if let Some(channel) = target.and_then(|target| target.upgrade()) {
        let _ = Shared::post_in_turn(&channel, request);
    }
}

impl LocalEnd {
    pub(crate) fn attach(&self, channel: Weak<SignalBlock<Shared>>) {
        self.theirs.lock().writer = Some(Weak::clone(&channel));
        let mut way = self.mine.lock();
        // The other end may have ended before there was a reader to tell.
        let ended = way.shut.then(|| Weak::clone(&channel));
        way.reader = Some(channel);
        drop(way);
        post_to(ended, ChannelRequest::HangUp);
    }

    /// Returns at most `most` bytes. The flag is `true` if nothing is left and the writer is still
    /// open.
    pub(crate) fn read(&self, most: usize) -> io::Result<(Bytes, bool)> {
        let mut way = self.mine.lock();
        let Some(mut chunk) = way.chunks.pop_front() else {
            return way.without_bytes().map(|()| (Bytes::new(), true));
        };
        if chunk.len() > most {
            let rest = chunk.split_off(most);
            way.chunks.push_front(rest);
        }
        way.held -= chunk.len();
        let all = way.chunks.is_empty() && !way.shut;
        let waiting = std::mem::take(&mut way.blocked).then(|| way.writer.clone());
        self.mine.notify(&way);
        drop(way);
        post_to(waiting.flatten(), ChannelRequest::CanWrite);
        Ok((chunk, all))
    }

    pub(crate) fn write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut way = self.theirs.lock();
        if way.gone {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut room = CAPACITY - way.held;
        if room == 0 {
            way.blocked = true;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut written = 0;
        for slice in slices {
            let part = &slice[..slice.len().min(room)];
            if !part.is_empty() {
                way.chunks.push_back(Bytes::copy_from_slice(part));
            }
            written += part.len();
            room -= part.len();
            if room == 0 {
                break;
            }
        }
        way.held += written;
        let reader = way.reader.clone();
        self.theirs.notify(&way);
        drop(way);
        post_to(reader, ChannelRequest::CanRead);
        Ok(written)
    }

    pub(crate) fn shut(&self) {
        let mut way = self.theirs.lock();
        way.shut = true;
        let reader = way.reader.clone();
        self.theirs.notify(&way);
        drop(way);
        post_to(reader, ChannelRequest::HangUp);
    }

    /// Makes the end of this side a reset: its peer gets an error after the bytes.
    pub(crate) fn reset_on_close(&self) {
        self.theirs.lock().reset = true;
    }

    /// Returns the address of this end, if it has one.
    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        self.mine.lock().address
    }

    /// Returns the address of the other end, if it has one.
    pub(crate) fn peer_addr(&self) -> Option<SocketAddr> {
        self.theirs.lock().address
    }

    /// Copies the next bytes, which stay to be read. None mean the end.
    pub(crate) fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        let way = self.mine.lock();
        let Some(chunk) = way.chunks.front() else {
            return way.without_bytes().map(|()| 0);
        };
        let count = chunk.len().min(into.len());
        into[..count].copy_from_slice(&chunk[..count]);
        Ok(count)
    }

    /// Blocks the thread until a read returns at once, for at most `patience`. Returns whether it
    /// does.
    pub(crate) fn wait_readable(&self, patience: Option<Duration>) -> bool {
        self.mine.wait(patience, PipeState::is_readable)
    }

    /// Blocks the thread until a write returns at once, for at most `patience`. Returns whether it
    /// does.
    pub(crate) fn wait_writable(&self, patience: Option<Duration>) -> bool {
        self.theirs.wait(patience, PipeState::is_writable)
    }
}

impl Drop for LocalEnd {
    fn drop(&mut self) {
        self.shut();
        let mut way = self.mine.lock();
        way.gone = true;
        way.chunks.clear();
        way.held = 0;
        let writer = way.writer.clone();
        self.mine.notify(&way);
        drop(way);
        post_to(writer, ChannelRequest::CanWrite);
    }
}
