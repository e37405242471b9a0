//! Peer: tokio's bounded mpsc channel into one task of a current_thread runtime.
//!
//! The runtime has no I/O driver. With one, every wake-up of the consumer is a `write` to its
//! eventfd; without one, it is a condition variable.

use tokio::runtime;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::channel::{Channel, OPEN};

/// `channel(n)`: enforces the bound itself, with a semaphore.
pub(crate) struct TokioBounded;

impl Channel for TokioBounded {
    type Sender<M: Send + 'static> = Sender<M>;
    type Receiver<M: Send + 'static> = Receiver<M>;

    fn open<M: Send + 'static>(capacity: Option<usize>) -> (Sender<M>, Receiver<M>) {
        mpsc::channel(capacity.expect("a bounded channel needs a capacity"))
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
        let runtime = runtime::Builder::new_current_thread().build();
        let runtime = runtime.expect("a runtime without drivers needs nothing from the system");
        runtime.block_on(async move {
            while let Some(message) = receiver.recv().await {
                each(message);
            }
        });
    }
}
