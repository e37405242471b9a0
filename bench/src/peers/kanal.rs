//! Peer: kanal, a channel behind a spinning lock that hands over directly when the receiver waits.

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

/// Takes all that is there under one lock (`drain_into`), and waits in `recv` only when there is nothing: the loop of
/// kanal's own documentation. What lies in the batch still counts as outstanding, so the harness has to keep the bound.
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
