//! Batching, which is only an optimisation: sources that are ready together receive together.
//!
//! Events come from the poller in batches of up to eight. If a batch has several events, its
//! sources first receive, one after the other; then each handles its event, in order. The kernel's
//! receive path stays in the cache for a batch. With many sources, the memory of each is prefetched
//! while others receive, in steps: its slot, the source itself, what that points to, and the
//! handlers. Each step needs what the one before it has fetched, and the system call of another
//! source lies between them.
//!
//! The interface is [`Batched`], which an event source may implement and need not. The reactor
//! calls [`Batch`] where a batch begins and where an event of it is delivered. Nothing else depends
//! on it: with the body of [`Batch::begin`] left empty, every source receives in its own turn.
//!
//! # Gain
//!
//! Measured on an echo server when each part was added: receiving together saves 2 to 3 % of the
//! CPU time. Batches of eight are as good as those of sixteen with few connections, and better with
//! many. To prefetch the handlers too saves an HTTP server with 512 connections 1 to 7 % of its CPU
//! time.

use bytes::Bytes;

use super::io_context::IoContext;
use super::source::Next;
use crate::events::{EventQueue, Slab};
use crate::message::Msg;
use crate::sys::{PIECES, Readiness, Ready, prefetch};

/// Number of sources up to which their memory stays in the cache without prefetching.
const NEAR: usize = 256;

/// What an event source does for the others of its batch. By default nothing.
pub(crate) trait Batched {
    /// Receives before its turn, if that is all that `readiness` requires; the event itself follows
    /// soon. No user code may run here.
    fn receive_early(&mut self, readiness: Readiness, io_context: &mut IoContext) {
        let _ = (readiness, io_context);
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
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Events of this batch that are still to be delivered.
    left: usize,
}

impl Batch {
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

    /// Starts the next batch. If it has several events, its sources receive now: one system call
    /// many times in a row is cheaper than two kinds in alternation. Without a `io_context`, no
    /// source receives early.
    pub(super) fn begin<S: Batched + ?Sized>(
        &mut self,
        queue: &EventQueue,
        sources: &mut Slab<Box<S>>,
        io_context: Option<&mut IoContext>,
    ) {
        let events = queue.polled_rest();
        let several = self.open(events.len());
        let Some(io_context) = io_context.filter(|_| several) else {
            return;
        };
        // With many sources their memory is prefetched, also for the events behind the batch.
        let far = sources.len() > NEAR;
        for (at, ready) in events[..self.left].iter().enumerate() {
            if far {
                prefetch_next(&events[at..], sources);
            }
            if let Some(source) = sources.get_mut(ready.token) {
                source.receive_early(ready.readiness, io_context);
            }
        }
    }

    /// Makes a batch of the next events. Returns `true` if it has several.
    fn open(&mut self, polled_rest: usize) -> bool {
        self.left = polled_rest.min(PIECES);
        self.left > 1
    }
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

#[cfg(test)]
mod tests {
    //! Where batches begin.

    use super::*;

    #[test]
    fn groups_are_of_eight_and_begin_once_each_and_one_alone_is_none() {
        let mut batch = Batch::default();
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
