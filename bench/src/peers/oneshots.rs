//! Peers: the oneshot channels of tokio, of the `oneshot` crate and of futures.
//!
//! They have no listeners. The nearest equivalent is: create, poll once (which stores the waker),
//! send, poll again. The waker is a no-op, which costs nothing to clone and to wake: this favours
//! them a little.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use crate::contest::{PromiseContestant, WaitContestant, observe};

/// The panic message for a receiver without a value; it does not happen here.
const SENT: &str = "the sender sends before it is dropped";

/// The panic message for a rejected value; it does not happen here.
const AWAITED: &str = "the receiver lives until the value is sent";

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn listen(receiver: &mut (impl Future + Unpin)) {
    assert!(poll(receiver).is_pending(), "nothing was sent yet");
}

fn receive<E>(receiver: &mut (impl Future<Output = Result<u64, E>> + Unpin)) {
    match poll(receiver) {
        Poll::Ready(value) => observe(value.ok().expect(SENT)),
        Poll::Pending => unreachable!("{SENT}"),
    }
}

/// `tokio::sync::oneshot`; its `blocking_recv` for the wait.
pub(crate) struct Tokio;

impl PromiseContestant for Tokio {
    type Pending = (
        tokio::sync::oneshot::Sender<u64>,
        tokio::sync::oneshot::Receiver<u64>,
    );

    #[inline]
    fn create() -> Self::Pending {
        tokio::sync::oneshot::channel()
    }

    #[inline]
    fn listen(pending: &mut Self::Pending) {
        listen(&mut pending.1);
    }

    #[inline]
    fn complete((sender, mut receiver): Self::Pending, value: u64) {
        sender.send(value).expect(AWAITED);
        receive(&mut receiver);
    }
}

impl WaitContestant for Tokio {
    type Completer = tokio::sync::oneshot::Sender<Instant>;
    type Waiter = tokio::sync::oneshot::Receiver<Instant>;

    fn pair() -> (Self::Completer, Self::Waiter) {
        tokio::sync::oneshot::channel()
    }

    fn complete(completer: Self::Completer, stamp: Instant) {
        completer.send(stamp).expect(AWAITED);
    }

    fn wait(waiter: Self::Waiter) -> Instant {
        waiter.blocking_recv().expect(SENT)
    }
}

/// The `oneshot` crate; its `recv` for the wait.
pub(crate) struct Oneshot;

impl PromiseContestant for Oneshot {
    type Pending = (oneshot::Sender<u64>, oneshot::AsyncReceiver<u64>);

    #[inline]
    fn create() -> Self::Pending {
        oneshot::async_channel()
    }

    #[inline]
    fn listen(pending: &mut Self::Pending) {
        listen(&mut pending.1);
    }

    #[inline]
    fn complete((sender, mut receiver): Self::Pending, value: u64) {
        sender.send(value).expect(AWAITED);
        receive(&mut receiver);
    }
}

impl WaitContestant for Oneshot {
    type Completer = oneshot::Sender<Instant>;
    type Waiter = oneshot::Receiver<Instant>;

    fn pair() -> (Self::Completer, Self::Waiter) {
        oneshot::channel()
    }

    fn complete(completer: Self::Completer, stamp: Instant) {
        completer.send(stamp).expect(AWAITED);
    }

    fn wait(waiter: Self::Waiter) -> Instant {
        waiter.recv().expect(SENT)
    }
}

/// `futures::channel::oneshot`; `block_on` for the wait.
pub(crate) struct Futures;

impl PromiseContestant for Futures {
    type Pending = (
        futures::channel::oneshot::Sender<u64>,
        futures::channel::oneshot::Receiver<u64>,
    );

    #[inline]
    fn create() -> Self::Pending {
        futures::channel::oneshot::channel()
    }

    #[inline]
    fn listen(pending: &mut Self::Pending) {
        listen(&mut pending.1);
    }

    #[inline]
    fn complete((sender, mut receiver): Self::Pending, value: u64) {
        sender.send(value).expect(AWAITED);
        receive(&mut receiver);
    }
}

impl WaitContestant for Futures {
    type Completer = futures::channel::oneshot::Sender<Instant>;
    type Waiter = futures::channel::oneshot::Receiver<Instant>;

    fn pair() -> (Self::Completer, Self::Waiter) {
        futures::channel::oneshot::channel()
    }

    fn complete(completer: Self::Completer, stamp: Instant) {
        completer.send(stamp).expect(AWAITED);
    }

    fn wait(waiter: Self::Waiter) -> Instant {
        futures::executor::block_on(waiter).expect(SENT)
    }
}
