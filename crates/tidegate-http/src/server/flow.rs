//! How much of a streamed response waits for its turn: a limit for each response.
//!
//! The channel's water marks count what the client has not taken. Pieces of a response that waits for
//! an earlier one, and pieces on their way to the connection, are counted here, so that a response
//! cannot fill the memory while the client waits for another one. Pieces on their way may be more
//! than the water marks permit: a client that is fast takes them all at once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_net::NetError;
use tidegate_promise::{Completion, Failure, Promise, promise};

/// How many bytes of a response may wait for an earlier one before it is not writable.
const HIGH: usize = 64 * 1024;
/// How many bytes of a response whose turn it is may be on their way. Several large pieces then need
/// one turn of the event loop and one system call.
const HIGH_IN_TURN: usize = 256 * 1024;
/// How many bytes are left when it is writable again.
const LOW: usize = 16 * 1024;

/// The pieces of one response that its connection has not written yet.
#[derive(Debug, Default)]
pub(crate) struct StreamFlow {
    state: Mutex<FlowState>,
}

#[derive(Debug, Default)]
struct FlowState {
    waiting: usize,
    /// It is the turn of this response: its pieces only pass through the connection.
    in_turn: bool,
    /// What waits for room.
    writers: Vec<Promise<()>>,
    /// The connection takes no more.
    ended: bool,
}

impl FlowState {
    fn is_full(&self) -> bool {
        let high = if self.in_turn { HIGH_IN_TURN } else { HIGH };
        self.waiting >= high && !self.ended
    }
}

impl StreamFlow {
    fn lock(&self) -> MutexGuard<'_, FlowState> {
        // No user code runs under this lock, so nothing can poison it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a piece that is on its way to the connection.
    pub(crate) fn add(&self, bytes: usize) {
        self.lock().waiting += bytes;
    }

    pub(crate) fn is_full(&self) -> bool {
        self.lock().is_full()
    }

    /// Returns `true` if the connection takes no more of the response.
    pub(crate) fn has_ended(&self) -> bool {
        self.lock().ended
    }

    /// Returns a completion that ends when there is room, or `None` if there is.
    pub(crate) fn room(&self) -> Option<Completion<()>> {
        let (promise, room) = promise();
        let mut state = self.lock();
        if !state.is_full() {
            return None;
        }
        state.writers.push(promise);
        Some(room)
    }

    fn remove(&self, bytes: usize) {
        let writers = {
            let mut state = self.lock();
            state.waiting = state.waiting.saturating_sub(bytes);
            match state.waiting <= LOW {
                true => std::mem::take(&mut state.writers),
                false => return,
            }
        };
        for writer in writers {
            let _ = writer.succeed(());
        }
    }
}

/// The connection's end of a [`StreamFlow`]. Dropping it ends the waits.
#[derive(Debug)]
pub(crate) struct FlowEnd(Arc<StreamFlow>);

impl FlowEnd {
    /// Creates a flow and the connection's end of it.
    pub(crate) fn new() -> (Arc<StreamFlow>, Self) {
        let flow = Arc::new(StreamFlow::default());
        (Arc::clone(&flow), Self(flow))
    }

    /// Says that it is the turn of this response. What waits is written at once after that, so that
    /// nothing else needs to end the waits.
    pub(crate) fn take_turn(&self) {
        self.0.lock().in_turn = true;
    }

    /// Says that a piece was written.
    pub(crate) fn wrote(&self, bytes: usize) {
        self.0.remove(bytes);
    }
}

impl Drop for FlowEnd {
    fn drop(&mut self) {
        let writers = {
            let mut state = self.0.lock();
            state.ended = true;
            std::mem::take(&mut state.writers)
        };
        for writer in writers {
            let _ = writer.fail(Failure::new(NetError::Closed(None)));
        }
    }
}
