//! Two connected ends in the memory of one process, like a socket pair. Each direction is a pipe.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use tidegate_core::internal::SignalBlock;

use super::channel_request::ChannelRequest;
use super::shared::Shared;

/// Bytes that one direction holds before its writer has to wait.
const CAPACITY: usize = 256 * 1024;

/// One end of a pair.
#[derive(Debug)]
pub(crate) struct LocalEnd {
    mine: Arc<Mutex<LocalPipe>>,
    theirs: Arc<Mutex<LocalPipe>>,
}

/// The pipe of one direction.
#[derive(Debug, Default)]
struct LocalPipe {
    chunks: VecDeque<Bytes>,
    held: usize,
    /// The writer has closed its end.
    shut: bool,
    /// The reader is gone.
    gone: bool,
    /// The writer waits for room.
    blocked: bool,
    reader: Option<Weak<SignalBlock<Shared>>>,
    writer: Option<Weak<SignalBlock<Shared>>>,
}

/// Creates two ends: each reads what the other writes.
pub(crate) fn local_ends() -> (LocalEnd, LocalEnd) {
    let (one, other) = (Arc::<Mutex<LocalPipe>>::default(), Arc::default());
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

fn lock(way: &Mutex<LocalPipe>) -> MutexGuard<'_, LocalPipe> {
    way.lock().unwrap_or_else(PoisonError::into_inner)
}

fn post_to(target: Option<Weak<SignalBlock<Shared>>>, request: ChannelRequest) {
    if let Some(channel) = target.and_then(|target| target.upgrade()) {
        let _ = Shared::post(&channel, request, true);
    }
}

impl LocalEnd {
    pub(crate) fn attach(&self, channel: Weak<SignalBlock<Shared>>) {
        lock(&self.theirs).writer = Some(Weak::clone(&channel));
        let mut way = lock(&self.mine);
        // The other end may have ended before there was a reader to tell.
        let ended = way.shut.then(|| Weak::clone(&channel));
        way.reader = Some(channel);
        drop(way);
        post_to(ended, ChannelRequest::HangUp);
    }

    /// Returns at most `most` bytes. The flag is `true` if nothing is left and the writer is still
    /// open.
    pub(crate) fn read(&self, most: usize) -> io::Result<(Bytes, bool)> {
        let mut way = lock(&self.mine);
        let Some(mut chunk) = way.chunks.pop_front() else {
            return if way.shut {
                Ok((Bytes::new(), true))
            } else {
                Err(io::ErrorKind::WouldBlock.into())
            };
        };
        if chunk.len() > most {
            let rest = chunk.split_off(most);
            way.chunks.push_front(rest);
        }
        way.held -= chunk.len();
        let all = way.chunks.is_empty() && !way.shut;
        let waiting = std::mem::take(&mut way.blocked).then(|| way.writer.clone());
        drop(way);
        post_to(waiting.flatten(), ChannelRequest::CanWrite);
        Ok((chunk, all))
    }

    pub(crate) fn write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut way = lock(&self.theirs);
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
        drop(way);
        post_to(reader, ChannelRequest::CanRead);
        Ok(written)
    }

    pub(crate) fn shut(&self) {
        let mut way = lock(&self.theirs);
        way.shut = true;
        let reader = way.reader.clone();
        drop(way);
        post_to(reader, ChannelRequest::HangUp);
    }
}

impl Drop for LocalEnd {
    fn drop(&mut self) {
        self.shut();
        let mut way = lock(&self.mine);
        way.gone = true;
        way.chunks.clear();
        way.held = 0;
        let writer = way.writer.clone();
        drop(way);
        post_to(writer, ChannelRequest::CanWrite);
    }
}
