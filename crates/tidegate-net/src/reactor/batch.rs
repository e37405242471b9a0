//! Sources that are ready together receive together, and send together: an optimisation, and all of it.
//!
//! Events come from the poller in batches of up to eight. Where a batch has several, its sources first
//! receive what has come, one after the other; then each is told, in order; then those send that
//! have something to send. The kernel's receive path stays in the cache for a batch, and so does its
//! send path. With many sources, their memory is prefetched while others receive.
//!
//! The seam is [`Batched`], which an event source may implement and need not. The reactor calls
//! [`Batch`] where a batch begins, where an event of it is told and where its task ends. Nothing else
//! knows of it: with the body of [`Batch::begin`] left empty every source receives, is told and
//! sends in its turn.
//!
//! Only sources that never block wait for others before they send, and only where one thread
//! tells them all; see [`Inbound::BLOCKING`](crate::Inbound::BLOCKING).
//!
//! # Gain
//!
//! As measured when each part was added, on an echo server: to receive together saves 2 to 3 % of the CPU
//! time, to send together behind that another 1 %. Batches of eight are as good as those of sixteen
//! with few connections, and better with many.

use bytes::Bytes;

use super::desk::Desk;
use crate::events::{EventQueue, Slab};
use crate::sys::{PIECES, Readiness, Ready, Token, prefetch};

/// Sources whose memory stays near without being prefetched.
const NEAR: usize = 256;

/// What an event source does for the others of its batch. By default nothing.
pub(crate) trait Batched {
    /// Receives before its turn, if that is all there is to `readiness`, of which it will be told
    /// soon. No code of the user's may run here. True if it did, and its handlers say that they never
    /// block: then what it sends may wait for the others.
    fn receive_early(&mut self, readiness: Readiness, desk: &mut Desk) -> bool {
        let _ = (readiness, desk);
        false
    }

    /// Sends what it has to, after it asked for that with [`Next::SendLate`](super::Next::SendLate). No
    /// code of the user's may run here. False if there is more to do: then it is told once more that it
    /// may write.
    fn send_late(&mut self, desk: &mut Desk) -> bool {
        let _ = desk;
        true
    }

    /// Prefetches the memory that it will look at when it is told of something.
    fn prefetch(&self) {}
}

/// The events of the poller that are told together.
#[derive(Debug)]
pub(super) struct Batch {
    /// Events of this batch that are still to be told.
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

    /// Notes that an event is told.
    #[inline]
    pub(super) fn tell_one(&mut self) {
        self.left = self.left.saturating_sub(1);
    }

    /// Begins the next batch: has its sources receive, if there are several. Whether they may wait for
    /// each other before they send, `one_thread` says. Without a desk nobody receives early.
    pub(super) fn begin<S: Batched + ?Sized>(
        &mut self,
        queue: &mut EventQueue,
        sources: &mut Slab<Box<S>>,
        desk: Option<&mut Desk>,
        one_thread: bool,
    ) {
        let Some(desk) = desk else {
            self.open(queue.to_come().len());
            return;
        };
        if one_thread {
            self.end(queue, sources, desk);
        }
        let events = queue.to_come();
        if self.open(events.len()) {
            let far = one_thread && sources.len() > NEAR;
            let quick = receive_early(&events[..self.left], events, sources, desk, far);
            desk.batch.may_wait = quick && one_thread;
        }
    }

    /// Makes a batch of the next events; true if it has several.
    fn open(&mut self, to_come: usize) -> bool {
        self.left = to_come.min(PIECES);
        self.left > 1
    }

    /// Notes that a source has something to send when the others have been told.
    #[inline]
    pub(super) fn defer(&mut self, token: Token) {
        self.to_send.push(token);
    }

    /// Has the sources send that waited for the others; nobody waits any more.
    #[inline]
    pub(super) fn end<S: Batched + ?Sized>(
        &mut self,
        queue: &mut EventQueue,
        sources: &mut Slab<Box<S>>,
        desk: &mut Desk,
    ) {
        desk.batch.may_wait = false;
        for at in 0..self.to_send.len() {
            let token = self.to_send[at];
            if let Some(source) = sources.get_mut(token)
                && !source.send_late(desk)
            {
                let readiness = Readiness::WRITE;
                queue.push_again(Ready { token, readiness });
            }
        }
        self.to_send.clear();
    }
}

/// Has the sources of `batch` receive before the first of them is told: one system call many times in
/// a row is cheaper than two kinds by turns. Where `far`, there are so many sources that their memory
/// is prefetched, that of `events` behind the batch as well. True if they are all quick.
fn receive_early<S: Batched + ?Sized>(
    batch: &[Ready],
    events: &[Ready],
    sources: &mut Slab<Box<S>>,
    desk: &mut Desk,
    far: bool,
) -> bool {
    let mut quick = true;
    for (at, ready) in batch.iter().enumerate() {
        if far
            && let Some(later) = events.get(at + 2)
            && let Some(source) = sources.peek(later.token)
        {
            prefetch(&**source);
        }
        if let Some(source) = sources.get_mut(ready.token) {
            quick &= source.receive_early(ready.readiness, desk);
            if far {
                source.prefetch();
            }
        }
    }
    quick
}

/// What the sources of a batch find on their desk.
#[derive(Debug, Default)]
pub(crate) struct Together {
    /// What the source that is told sends may wait for the others.
    pub(crate) may_wait: bool,
    /// Bytes that were sent late and are not the loop's.
    spent: Vec<Bytes>,
}

impl Together {
    /// Keeps bytes that were sent and are not the loop's: their drop may be the user's code, which
    /// must not run while the reactor is borrowed.
    pub(crate) fn keep(&mut self, spent: Bytes) {
        self.spent.push(spent);
    }

    /// Returns what was kept.
    #[inline]
    pub(crate) fn take_spent(&mut self) -> Vec<Bytes> {
        std::mem::take(&mut self.spent)
    }

    /// Gives the memory back in which bytes were kept.
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
            batch.tell_one();
        }
        let mut expected = vec![0; 17];
        (expected[0], expected[8]) = (8, 8);
        assert_eq!(sizes, expected);
    }
}
