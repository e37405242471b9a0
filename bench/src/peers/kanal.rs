//! Peer: kanal, a channel behind a spin lock with a direct hand-off to a waiting receiver.

use kanal::{Receiver, Sender};

use super::channel::{Channel, OPEN};

/// One `recv` per message.
pub(crate) struct Kanal;

impl Channel for Kanal {
    type Sender<M: Send + 'static> = Sender<M>;
    type Receiver<M: Send + 'static> = Receiver<M>;

    fn open<M: Send + 'static>(capacity: Option<usize>) -> (Sender<M>, Receiver<M>) {
        open(capacity)
    }

    #[inline]
    fn send<M: Send + 'static>(sender: &Sender<M>, message: M) {
        sender.send(message).expect(OPEN);
    }

    fn consume<M: Send + 'static>(receiver: Receiver<M>, mut each: impl FnMut(M)) {
        while let Ok(message) = receiver.recv() {
            each(message);
        }
    }
}

/// Takes all queued messages under one lock (`drain_into`), and waits in `recv` only if there are
/// none: the loop from kanal's own documentation. The messages in the batch still count as
/// outstanding, so the harness has to enforce the bound.
pub(crate) struct KanalDrain;

impl Channel for KanalDrain {
    type Sender<M: Send + 'static> = Sender<M>;
    type Receiver<M: Send + 'static> = Receiver<M>;

    fn open<M: Send + 'static>(capacity: Option<usize>) -> (Sender<M>, Receiver<M>) {
        open(capacity)
    }

    #[inline]
    fn send<M: Send + 'static>(sender: &Sender<M>, message: M) {
        Kanal::send(sender, message);
    }

    fn consume<M: Send + 'static>(receiver: Receiver<M>, mut each: impl FnMut(M)) {
        let mut batch = Vec::new();
        loop {
            match receiver.drain_into(&mut batch) {
                Ok(0) | Err(_) => match receiver.recv() {
                    Ok(message) => each(message),
                    Err(_) => return,
                },
                Ok(_) => batch.drain(..).for_each(&mut each),
            }
        }
    }
}

fn open<M: Send + 'static>(capacity: Option<usize>) -> (Sender<M>, Receiver<M>) {
    match capacity {
        Some(capacity) => kanal::bounded(capacity),
        None => kanal::unbounded(),
    }
}
