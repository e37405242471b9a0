//! A loop made of a channel and a thread that runs the received tasks, as a user would build it.

use std::thread::{self, JoinHandle};

use crate::contest::{Limit, LoopContestant};

/// A task as a user sends it through a channel.
pub(crate) type Task = Box<dyn FnOnce() + Send>;

/// A multi-producer channel. It closes when its only sender is dropped (producers share it by
/// reference).
pub(crate) trait Channel: 'static {
    /// The end that sends.
    type Sender<M: Send + 'static>: Send + Sync + 'static;
    /// The end that receives.
    type Receiver<M: Send + 'static>: Send + 'static;

    /// Opens a channel with at most `capacity` messages, or without a bound.
    fn open<M: Send + 'static>(capacity: Option<usize>) -> (Self::Sender<M>, Self::Receiver<M>);

    /// Sends, waiting while the channel is full.
    fn send<M: Send + 'static>(sender: &Self::Sender<M>, message: M);

    /// Receives until the channel is closed and empty.
    fn consume<M: Send + 'static>(receiver: Self::Receiver<M>, each: impl FnMut(M));
}

/// The panic message for a closed channel; it does not happen here.
pub(super) const OPEN: &str = "the receiver lives until the sender is dropped";

/// A channel and the thread that receives from it.
pub(crate) struct ChannelLoop<C: Channel, M: Send + 'static> {
    sender: C::Sender<M>,
    thread: JoinHandle<()>,
}

impl<C: Channel, M: Send + 'static> ChannelLoop<C, M> {
    /// Opens the channel and starts the thread, which passes every message to `each`.
    pub(crate) fn start(name: &str, limit: Limit, each: impl FnMut(M) + Send + 'static) -> Self {
        let (sender, receiver) = C::open(limit.own());
        let thread = spawn(name, move || C::consume(receiver, each));
        ChannelLoop { sender, thread }
    }

    /// Sends a message to the thread.
    #[inline]
    pub(crate) fn send(&self, message: M) {
        C::send(&self.sender, message);
    }

    /// Closes the channel and joins the thread.
    pub(crate) fn stop(self) {
        drop(self.sender);
        join(self.thread);
    }
}

/// A channel of boxed closures.
pub(crate) struct BoxedLoop<C: Channel>(ChannelLoop<C, Task>);

impl<C: Channel> LoopContestant for BoxedLoop<C> {
    fn start(name: &str, limit: Limit) -> Self {
        BoxedLoop(ChannelLoop::start(name, limit, |task: Task| task()))
    }

    #[inline]
    fn submit<F: FnOnce() + Send + 'static>(&self, task: F) {
        self.0.send(Box::new(task));
    }

    fn stop(self) {
        self.0.stop();
    }
}

/// Starts a contestant's thread.
pub(super) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let builder = thread::Builder::new().name(name.to_owned());
    builder
        .spawn(body)
        .expect("the machine has room for one more thread")
}

/// Waits for a contestant's thread to end.
pub(super) fn join(thread: JoinHandle<()>) {
    thread.join().expect("a contestant's thread does not panic");
}
