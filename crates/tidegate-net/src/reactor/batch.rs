//! Batching, which is only an optimisation: sources that are ready together receive together and
//! send together.
//!
//! Events come from the poller in batches of up to eight. If a batch has several events, its
//! sources first receive, one after the other; then each handles its event, in order; then those
//! that have something to send send it. The kernel's receive path stays in the cache for a batch,
//! and so does its send path. With many sources, the memory of each is prefetched while others
//! receive, in steps: its slot, the source itself, what that points to, and the handlers. Each step
//! needs what the one before it has fetched, and the system call of another source lies between
//! them.
//!
//! The interface is [`Batched`], which an event source may implement and need not. The reactor
//! calls [`Batch`] where a batch begins, where an event of it is delivered and where its task ends.
//! Nothing else depends on it: with the body of [`Batch::begin`] left empty, every source receives,
//! handles its event and sends in its own turn.
//!
//! Only sources that never block wait for others before they send, and only if one thread runs them
//! all; see [`Inbound::BLOCKING`](crate::Inbound::BLOCKING).
//!
//! # Gain
//!
//! Measured on an echo server when each part was added: receiving together saves 2 to 3 % of the
//! CPU time, sending together another 1 %. Batches of eight are as good as those of sixteen with
//! few connections, and better with many. To prefetch the handlers too saves an HTTP server with 512
//! connections 1 to 7 % of its CPU time.

use bytes::Bytes;

use super::io_context::IoContext;
use super::source::Next;
use crate::events::{EventQueue, Slab};
use crate::message::Msg;
use crate::sys::{PIECES, Readiness, Ready, Token, prefetch};

/// Number of sources up to which their memory stays in the cache without prefetching.
const NEAR: usize = 256;

/// What an event source does for the others of its batch. By default nothing.
pub(crate) trait Batched {
    /// Receives before its turn, if that is all that `readiness` requires; the event itself follows
    /// soon. No user code may run here. Returns `true` if it did, and its handlers never block:
    /// then what it sends may wait for the others.
    fn receive_early(&mut self, readiness: Readiness, io_context: &mut IoContext) -> bool {
        let _ = (readiness, io_context);
        false
    }

    /// Sends, after the source requested that with [`Next::SendLate`](super::Next::SendLate). No
    /// user code may run here. Returns `false` if there is more to do: a write event follows.
    fn send_late(&mut self, io_context: &mut IoContext) -> bool {
        let _ = io_context;
        true
    }

    /// Prefetches the memory to which the source points and that it will use for its next event. The
    /// source itself should be in the cache.
    fn prefetch_parts(&self) {}

    /// Prefetches the memory to which the parts point: the handlers. The parts should be in the cache.
    fn prefetch_handlers(&self) {}

    /// Takes a write of another source of its loop, outside of its own turn. `key` names the source
    /// that is meant. No handler may run here.
    ///
    /// # Errors
    ///
    /// The bytes, if the source is another one or cannot take them now.
    fn take_write(
        &mut self,
        key: usize,
        bytes: Option<Bytes>,
        flush: bool,
    ) -> Result<TakenWrite, Option<Bytes>> {
        let _ = (key, flush);
        Err(bytes)
    }

    /// Notes that requests are queued for the source, by the thread of its loop. `key` names the source
    /// that is meant. No handler may run here. Returns whether the source needs an
    /// [`Batched::owed_turn`] at the end of the task and has not requested one yet; `None` if it does
    /// not look for requests then.
    fn take_requests(&mut self, key: usize) -> Option<bool> {
        let _ = key;
        None
    }

    /// Takes a message of another source or of a task of its loop, outside of its own turn. `key` names
    /// the source that is meant. No handler may run here. The message stays if the source is another
    /// one or cannot take it now. Returns `true` if the source needs an [`Batched::owed_turn`] at the end
    /// of the task and has not requested one yet.
    fn take_message(&mut self, key: usize, message: &mut Option<Msg>) -> bool {
        let _ = (key, message);
        false
    }

    /// Has the turn that [`TakenWrite::owes_turn`] requested. User code may run here.
    fn owed_turn(&mut self, io_context: &mut IoContext) -> Next {
        let _ = io_context;
        Next::Stay
    }
}

/// Result of [`Batched::take_write`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TakenWrite {
    /// The source needs an [`Batched::owed_turn`] at the end of the task, and has not requested
    /// one yet.
    pub(crate) owes_turn: bool,
    /// The source accepts more without exceeding its limits.
    pub(crate) writable: bool,
}

/// The current batch: events of the poller that are delivered together.
#[derive(Debug)]
pub(super) struct Batch {
    /// Events of this batch that are still to be delivered.
    left: usize,
    /// Sources of this batch that have something to send.
    to_send: Vec<Token>,
}

impl Batch {
    pub(super) fn new() -> Self {
        Self {
            left: 0,
            to_send: Vec::with_capacity(PIECES),
        }
    }

    /// Returns `true` if the next event begins another batch.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Records that an event is delivered.
    #[inline]
    pub(super) fn deliver_one(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// Starts the next batch. If it has several events, its sources receive now. `one_thread` says
    /// whether they may wait for each other before they send. Without a `io_context`, no source
    /// receives early.
    pub(super) fn begin<S: Batched + ?Sized>(
        &mut self,
        queue: &mut EventQueue,
        sources: &mut Slab<Box<S>>,
        io_context: Option<&mut IoContext>,
        one_thread: bool,
    ) {
        let Some(io_context) = io_context else {
            self.open(queue.polled_rest().len());
            return;
        };
        if one_thread {
            self.end(queue, sources, io_context);
        }
        let events = queue.polled_rest();
        if self.open(events.len()) {
            let far = sources.len() > NEAR;
            let quick = receive_early(self.left, events, sources, io_context, far);
            io_context.batch.may_wait = quick && one_thread;
        }
    }

    /// Makes a batch of the next events. Returns `true` if it has several.
    fn open(&mut self, polled_rest: usize) -> bool {
        self.left = polled_rest.min(PIECES);
        self.left > 1
    }

    /// Records that a source has something to send after the others have handled their events.
    #[inline]
    pub(super) fn defer(&mut self, token: Token) {
        self.to_send.push(token);
    }

    /// Makes the sources send that waited for the others. From now on no source waits.
    #[inline]
    pub(super) fn end<S: Batched + ?Sized>(
        &mut self,
        queue: &mut EventQueue,
        sources: &mut Slab<Box<S>>,
        io_context: &mut IoContext,
    ) {
        io_context.batch.may_wait = false;
        for at in 0..self.to_send.len() {
            let token = self.to_send[at];
            if let Some(source) = sources.get_mut(token)
                && !source.send_late(io_context)
            {
                let readiness = Readiness::WRITE;
                queue.push_again(Ready { token, readiness });
            }
        }
        self.to_send.clear();
    }
}

/// Receives for the sources of the first `batch` events before any of them handles its event: one
/// system call many times in a row is cheaper than two kinds in alternation. `far` means that there
/// are so many sources that their memory is prefetched, including that of the events behind the
/// batch. Returns `true` if every source received and never blocks.
fn receive_early<S: Batched + ?Sized>(
    batch: usize,
    events: &[Ready],
    sources: &mut Slab<Box<S>>,
    io_context: &mut IoContext,
    far: bool,
) -> bool {
    let mut quick = true;
    for (at, ready) in events[..batch].iter().enumerate() {
        if far {
            prefetch_next(&events[at..], sources);
        }
        if let Some(source) = sources.get_mut(ready.token) {
            quick &= source.receive_early(ready.readiness, io_context);
        }
    }
    quick
}

/// Prefetches memory of the sources of the next events, one step for each.
#[inline]
fn prefetch_next<S: Batched + ?Sized>(events: &[Ready], sources: &Slab<Box<S>>) {
    if let Some(ready) = events.get(3) {
        sources.prefetch(ready.token);
    }
    let source = |at: usize| sources.peek(events.get(at)?.token);
    if let Some(source) = source(2) {
        prefetch(&**source);
    }
    if let Some(source) = source(1) {
        source.prefetch_parts();
    }
    if let Some(source) = source(0) {
        source.prefetch_handlers();
    }
}

/// State of the current batch, which its sources reach through the I/O context.
#[derive(Debug, Default)]
pub(crate) struct BatchState {
    /// What the current source sends may wait for the others.
    pub(crate) may_wait: bool,
    /// Bytes that were sent late and do not belong to the loop's buffer.
    spent: Vec<Bytes>,
}

impl BatchState {
    /// Keeps bytes that were sent and do not belong to the loop's buffer. Their drop may be user
    /// code, which must not run while the reactor is borrowed.
    pub(crate) fn keep(&mut self, spent: Bytes) {
        self.spent.push(spent);
    }

    /// Returns the bytes that were kept.
    #[inline]
    pub(crate) fn take_spent(&mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.spent)
    }

    /// Takes the emptied vector back, to reuse its memory.
    pub(super) fn reuse(&mut self, empty: Vec<Bytes>) {
        self.spent = empty;
    }
}

#[cfg(test)]
mod tests {
    //! Where batches begin.

    use super::*;

    #[test]
    fn groups_are_of_eight_and_begin_once_each_and_one_alone_is_none() {
        let mut batch = Batch::new();
        let mut sizes = Vec::new();
        for left in (1..=17).rev() {
            let several = batch.is_over() && batch.open(left);
            sizes.push(if several { batch.left } else { 0 });
            batch.deliver_one();
        }
        let mut expected = vec![0; 17];
        (expected[0], expected[8]) = (8, 8);
        assert_eq!(sizes, expected);
    }
}
