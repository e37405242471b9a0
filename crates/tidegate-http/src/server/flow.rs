//! How much of a streamed response waits for its turn: a limit for each response.
//!
//! The channel's water marks count what the client has not taken. Pieces of a response that waits for
//! an earlier one, and pieces on their way to the connection, are counted here, so that a response
//! cannot fill the memory while the client waits for another one. Pieces on their way may be more
//! than the water marks permit: a client that is fast takes them all at once. How many is decided by
//! the [`Window`] of the connection, which grows as long as the client takes everything. Each piece
//! counts with the memory that it takes beside its bytes ([`cost`]), so that the limits hold for small
//! pieces, too.

use std::sync::{Arc, Mutex, MutexGuard};

use tidegate_core::internal::lock;
use tidegate_net::NetError;
use tidegate_net::internal::StreamRoom;
use tidegate_promise::{Completion, Failure, Promise, promise};

use crate::pieces::cost;

/// How many bytes of a response may wait for an earlier one before it is not writable.
const HIGH: usize = 64 * 1024;
/// How many bytes are left when it is writable again.
const LOW: usize = 16 * 1024;

/// How many bytes of a response whose turn it is may be on their way to the connection. Several large
/// pieces then need one turn of the event loop and one system call.
///
/// A window counts from one wait of the service for room to the next one. If the client has taken
/// everything before it, the next window is twice as large; otherwise it is the smallest one. The
/// service goes on while the connection sends the window, so a client that stops reading has two
/// large windows in memory at most, one MiB. A window grows to a sixteenth of what the connection and its server may still hold at most, because
/// other connections grow at the same time; where memory is short, even the smallest one shrinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    bytes: u32,
    /// A window was filled, so that its end says something about the client.
    was_filled: bool,
}

impl Window {
    const LEAST: u32 = 256 * 1024;
    const MOST: u32 = 512 * 1024;

    pub(crate) const fn new() -> Self {
        Self {
            bytes: Self::LEAST,
            was_filled: false,
        }
    }

    /// Returns the size of the window at the beginning of a response.
    pub(crate) fn at_start(self, room: StreamRoom) -> usize {
        let bytes = if room.all_sent {
            self.bytes
        } else {
            Self::LEAST
        };
        within(bytes, room)
    }

    /// Returns the size of the next window, when the current one is filled and written.
    fn next(&mut self, room: StreamRoom) -> usize {
        self.bytes = match (room.all_sent, self.was_filled) {
            (true, true) => (2 * self.bytes).min(Self::MOST),
            (true, false) => self.bytes,
            (false, _) => Self::LEAST,
        };
        self.was_filled = true;
        within(self.bytes, room)
    }
}

/// Returns `bytes`, or less if the connection should not hold so many.
fn within(bytes: u32, room: StreamRoom) -> usize {
    // A response goes on in any case, by more than the mark at which its service is notified.
    let least = (room.spare / 4).clamp(2 * LOW, Window::LEAST as usize);
    (room.spare / 16).clamp(least, bytes as usize)
}

/// The pieces of one response that its connection has not written yet.
#[derive(Debug, Default)]
pub(crate) struct StreamFlow {
    state: Mutex<FlowState>,
}

#[derive(Debug, Default)]
struct FlowState {
    waiting: usize,
    /// How many bytes may be on their way, once it is the turn of this response: its pieces only pass
    /// through the connection then.
    window: Option<usize>,
    /// The service has filled the window, and waits for room.
    filled: bool,
    /// What waits for room.
    writers: Vec<Promise<()>>,
    /// The connection takes no more.
    ended: bool,
}

impl FlowState {
    fn is_full(&self) -> bool {
        self.waiting >= self.window.unwrap_or(HIGH) && !self.ended
    }
}

impl StreamFlow {
    fn lock(&self) -> MutexGuard<'_, FlowState> {
        // No user code runs under this lock, so nothing can poison it.
        lock(&self.state)
    }

    /// Counts a piece of so many bytes that is on its way to the connection.
    pub(crate) fn add(&self, bytes: usize) {
        self.lock().waiting += cost(bytes);
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
        state.filled = state.window.is_some();
        state.writers.push(promise);
        Some(room)
    }

    fn remove(&self, bytes: usize, next: impl FnOnce() -> usize) {
        let (filled, writers) = {
            let mut state = self.lock();
            state.waiting = state.waiting.saturating_sub(cost(bytes));
            if state.waiting > LOW {
                return;
            }
            let filled = std::mem::take(&mut state.filled);
            (filled, std::mem::take(&mut state.writers))
        };
        if filled {
            let window = next();
            self.lock().window = Some(window);
        }
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

    /// Says that it is the turn of this response, and how many of its bytes may be on their way. What
    /// waits is written at once after that, so that nothing else needs to end the waits.
    pub(crate) fn take_turn(&self, window: usize) {
        self.0.lock().window = Some(window);
    }

    /// Says that a piece was written. If the service waits for room, it goes on; `room` says how much
    /// the connection could take.
    pub(crate) fn wrote(
        &self,
        bytes: usize,
        window: &mut Window,
        room: impl FnOnce() -> StreamRoom,
    ) {
        self.0.remove(bytes, || window.next(room()));
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

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1024;
    const AMPLE: usize = 16 * KIB * KIB;

    fn room(all_sent: bool, spare: usize) -> StreamRoom {
        StreamRoom { all_sent, spare }
    }

    #[test]
    fn a_window_grows_while_the_client_takes_everything() {
        let mut window = Window::new();
        let taken = room(true, AMPLE);
        assert_eq!(window.at_start(taken), 256 * KIB);
        // Nothing was taken before the first window.
        let sizes = [(); 5].map(|()| window.next(taken) / KIB);
        assert_eq!(sizes, [256, 512, 512, 512, 512]);
        assert_eq!(window.at_start(taken), 512 * KIB);
    }

    #[test]
    fn a_client_that_leaves_something_gets_the_smallest_window() {
        let (taken, left) = (room(true, AMPLE), room(false, AMPLE));
        let mut window = Window::new();
        for _ in 0..3 {
            window.next(taken);
        }
        assert_eq!(window.at_start(left), 256 * KIB);
        assert_eq!(window.next(left), 256 * KIB);
        assert_eq!(window.at_start(taken), 256 * KIB);
        assert_eq!(window.next(taken), 512 * KIB);
    }

    #[test]
    fn a_window_stays_within_a_share_of_the_memory() {
        let mut window = Window::new();
        for _ in 0..3 {
            window.next(room(true, AMPLE));
        }
        for (spare, expected) in [
            (16 * 1024, 512),
            (8 * 1024, 512),
            (6 * 1024, 384),
            (4 * 1024, 256),
            (1024, 256),
            (400, 100),
            // A response goes on even then, in small steps.
            (100, 32),
            (0, 32),
        ] {
            let room = room(true, spare * KIB);
            assert_eq!(window.at_start(room), expected * KIB, "{spare}");
            assert_eq!(window.next(room), expected * KIB, "{spare}");
        }
        assert_eq!(window.next(room(true, AMPLE)), 512 * KIB);
    }
}
