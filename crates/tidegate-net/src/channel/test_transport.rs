//! The transport of a channel in a test, which takes the place of a socket.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::{Mutex, MutexGuard, Weak};

use bytes::{Bytes, BytesMut};
use tidegate_core::internal::{SignalBlock, lock};

use super::shared::Shared;

/// A transport between a channel and a test.
#[derive(Debug, Default)]
pub(crate) struct TestTransport {
    state: Mutex<WireState>,
}

#[derive(Debug, Default)]
pub(crate) struct WireState {
    pub(crate) inbound: VecDeque<Bytes>,
    pub(crate) ended: bool,
    pub(crate) failure: Option<io::ErrorKind>,
    pub(crate) outbound: VecDeque<Bytes>,
    pub(crate) calls: usize,
    /// Bytes that it still accepts; `None` means any number.
    pub(crate) room: Option<usize>,
    /// Bytes that it has accepted and the peer has not acknowledged; `None` means not known.
    pub(crate) held: Option<u64>,
    pub(crate) output_shut: bool,
    channel: Option<Weak<SignalBlock<Shared>>>,
}

impl TestTransport {
    pub(crate) fn attach(&self, channel: Weak<SignalBlock<Shared>>) {
        self.lock().channel = Some(channel);
    }

    pub(crate) fn read(&self, most: usize) -> io::Result<Bytes> {
        let mut state = self.lock();
        let Some(chunk) = state.inbound.front_mut() else {
            return match state.failure.take() {
                Some(why) => Err(why.into()),
                None if state.ended => Ok(Bytes::new()),
                None => Err(io::ErrorKind::WouldBlock.into()),
            };
        };
        if chunk.len() > most {
            return Ok(chunk.split_to(most));
        }
        // Like a socket: a read is short only if nothing is left.
        let mut bytes = BytesMut::from(state.inbound.pop_front().unwrap_or_default());
        while bytes.len() < most
            && let Some(chunk) = state.inbound.front_mut()
        {
            let part = chunk.len().min(most - bytes.len());
            bytes.extend_from_slice(&chunk.split_to(part));
            if chunk.is_empty() {
                state.inbound.pop_front();
            }
        }
        Ok(bytes.freeze())
    }

    pub(crate) fn write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut state = self.lock();
        if let Some(why) = state.failure {
            return Err(why.into());
        }
        state.calls += 1;
        let mut room = state.room.unwrap_or(usize::MAX);
        let mut written = 0;
        for slice in slices {
            let part = &slice[..slice.len().min(room)];
            if !part.is_empty() || slice.is_empty() {
                state.outbound.push_back(Bytes::copy_from_slice(part));
            }
            written += part.len();
            room -= part.len();
        }
        if state.room.is_some() {
            if written == 0 && slices.iter().any(|slice| !slice.is_empty()) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            state.room = Some(room);
        }
        Ok(written)
    }

    /// Returns the error, if neither a read nor a write has reported it.
    pub(crate) fn take_error(&self) -> Option<io::Error> {
        self.lock().failure.take().map(io::Error::from)
    }

    pub(crate) fn shut_output(&self) {
        self.lock().output_shut = true;
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, WireState> {
        lock(&self.state)
    }
}
