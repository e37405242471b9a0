//! Peer: `std::sync::mpsc`, unbounded and bounded.

use std::sync::mpsc::{self, Receiver, Sender, SyncSender};

use super::channel::{Channel, OPEN};

/// `channel()`: without a bound.
pub(crate) struct StdChannel;

impl Channel for StdChannel {
    type Sender<M: Send + 'static> = Sender<M>;
    type Receiver<M: Send + 'static> = Receiver<M>;

    fn open<M: Send + 'static>(_: Option<usize>) -> (Sender<M>, Receiver<M>) {
        mpsc::channel()
    }

    #[inline]
    fn send<M: Send + 'static>(sender: &Sender<M>, message: M) {
        sender.send(message).expect(OPEN);
    }

    fn consume<M: Send + 'static>(receiver: Receiver<M>, each: impl FnMut(M)) {
        receiver.into_iter().for_each(each);
    }
}

/// `sync_channel(n)`: enforces the bound itself.
pub(crate) struct StdSyncChannel;

impl Channel for StdSyncChannel {
    type Sender<M: Send + 'static> = SyncSender<M>;
    type Receiver<M: Send + 'static> = Receiver<M>;

    fn open<M: Send + 'static>(capacity: Option<usize>) -> (SyncSender<M>, Receiver<M>) {
        mpsc::sync_channel(capacity.expect("a sync_channel needs a capacity"))
    }

    #[inline]
    fn send<M: Send + 'static>(sender: &SyncSender<M>, message: M) {
        sender.send(message).expect(OPEN);
    }

    fn consume<M: Send + 'static>(receiver: Receiver<M>, each: impl FnMut(M)) {
        receiver.into_iter().for_each(each);
    }
}
