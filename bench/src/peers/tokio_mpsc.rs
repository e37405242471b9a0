//! Peer: tokio's mpsc channel into one task of a current_thread runtime.
//!
//! The runtime has no I/O driver. With one, every wake-up of the consumer is a `write` to its
//! eventfd; without one, it is a condition variable. `BATCH` takes many messages at once with
//! `recv_many`.

use tokio::runtime;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{self, Receiver, Sender, UnboundedReceiver, UnboundedSender};

use super::channel::{Channel, OPEN};

/// The maximum number of messages that `recv_many` takes at once. They stay outstanding until they
/// have run.
const MANY: usize = 512;

/// `unbounded_channel()`.
pub(crate) struct TokioUnbounded<const BATCH: bool>;

impl<const BATCH: bool> Channel for TokioUnbounded<BATCH> {
    type Sender<M: Send + 'static> = UnboundedSender<M>;
    type Receiver<M: Send + 'static> = UnboundedReceiver<M>;

    fn open<M: Send + 'static>(_: Option<usize>) -> (UnboundedSender<M>, UnboundedReceiver<M>) {
        mpsc::unbounded_channel()
    }

    #[inline]
    fn send<M: Send + 'static>(sender: &UnboundedSender<M>, message: M) {
        sender.send(message).expect(OPEN);
    }

    fn consume<M: Send + 'static>(mut receiver: UnboundedReceiver<M>, mut each: impl FnMut(M)) {
        block_on(async move {
            if BATCH {
                let mut batch = Vec::with_capacity(MANY);
                while receiver.recv_many(&mut batch, MANY).await > 0 {
                    batch.drain(..).for_each(&mut each);
                }
            } else {
                while let Some(message) = receiver.recv().await {
                    each(message);
                }
            }
        });
    }
}

/// `channel(n)`: enforces the bound itself, with a semaphore.
pub(crate) struct TokioBounded<const BATCH: bool>;

impl<const BATCH: bool> Channel for TokioBounded<BATCH> {
    type Sender<M: Send + 'static> = Sender<M>;
    type Receiver<M: Send + 'static> = Receiver<M>;

    fn open<M: Send + 'static>(capacity: Option<usize>) -> (Sender<M>, Receiver<M>) {
        let capacity = capacity.expect("a bounded channel needs a capacity");
        mpsc::channel(if BATCH { capacity - MANY } else { capacity })
    }

    #[inline]
    fn send<M: Send + 'static>(sender: &Sender<M>, message: M) {
        // `blocking_send` alone enters a runtime context at every call; only a full channel needs
        // that.
        match sender.try_send(message) {
            Ok(()) => {}
            Err(TrySendError::Full(message)) => sender.blocking_send(message).expect(OPEN),
            Err(TrySendError::Closed(_)) => unreachable!("{OPEN}"),
        }
    }

    fn consume<M: Send + 'static>(mut receiver: Receiver<M>, mut each: impl FnMut(M)) {
        block_on(async move {
            if BATCH {
                let mut batch = Vec::with_capacity(MANY);
                while receiver.recv_many(&mut batch, MANY).await > 0 {
                    batch.drain(..).for_each(&mut each);
                }
            } else {
                while let Some(message) = receiver.recv().await {
                    each(message);
                }
            }
        });
    }
}

fn block_on(consumer: impl Future<Output = ()>) {
    let runtime = runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime without drivers needs nothing from the system");
    runtime.block_on(consumer);
}
