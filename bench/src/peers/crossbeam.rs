//! Peers: crossbeam-channel, and crossbeam's `SegQueue` with a consumer that parks when it is
//! empty.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};

use crossbeam_channel::{Receiver, Sender};
use crossbeam_queue::SegQueue;
use crossbeam_utils::{Backoff, CachePadded};

use super::channel::{Channel, OPEN};

/// crossbeam-channel: an array of slots if it is bounded, a list of blocks if it is not. It spins
/// before it parks.
pub(crate) struct Crossbeam;

impl Channel for Crossbeam {
    type Sender<M: Send + 'static> = Sender<M>;
    type Receiver<M: Send + 'static> = Receiver<M>;

    fn open<M: Send + 'static>(capacity: Option<usize>) -> (Sender<M>, Receiver<M>) {
        match capacity {
            Some(capacity) => crossbeam_channel::bounded(capacity),
            None => crossbeam_channel::unbounded(),
        }
    }

    #[inline]
    fn send<M: Send + 'static>(sender: &Sender<M>, message: M) {
        sender.send(message).expect(OPEN);
    }

    fn consume<M: Send + 'static>(receiver: Receiver<M>, each: impl FnMut(M)) {
        receiver.into_iter().for_each(each);
    }
}

/// `SegQueue` with an "asleep" flag and a parked consumer. With `SPIN` the consumer spins for a
/// while (crossbeam's `Backoff`, as crossbeam-channel does) before it parks.
pub(crate) struct Segments<const SPIN: bool>;

/// The state that both ends share.
pub(crate) struct Shared<M> {
    queue: SegQueue<M>,
    asleep: CachePadded<AtomicBool>,
    closed: AtomicBool,
    consumer: OnceLock<Thread>,
}

impl<M> Shared<M> {
    #[inline]
    fn wake(&self) {
        // Pairs with the fence in `sleep`: either this thread sees the flag, or the consumer sees
        // the pushed message.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::AcqRel) {
            let consumer = self.consumer.get();
            consumer
                .expect("the consumer names itself before it sleeps")
                .unpark();
        }
    }

    fn sleep(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.queue.is_empty() && !self.closed.load(Ordering::Acquire) {
            while self.asleep.load(Ordering::Acquire) {
                thread::park();
            }
        } else {
            self.asleep.store(false, Ordering::Relaxed);
        }
    }
}

/// The sending end; dropping it closes the queue.
pub(crate) struct Feeder<M>(Arc<Shared<M>>);

impl<M> Drop for Feeder<M> {
    fn drop(&mut self) {
        self.0.closed.store(true, Ordering::Release);
        self.0.wake();
    }
}

impl<const SPIN: bool> Channel for Segments<SPIN> {
    type Sender<M: Send + 'static> = Feeder<M>;
    type Receiver<M: Send + 'static> = Arc<Shared<M>>;

    fn open<M: Send + 'static>(capacity: Option<usize>) -> (Feeder<M>, Arc<Shared<M>>) {
        assert!(capacity.is_none(), "a SegQueue has no bound");
        let shared = Arc::new(Shared {
            queue: SegQueue::new(),
            asleep: CachePadded::new(AtomicBool::new(false)),
            closed: AtomicBool::new(false),
            consumer: OnceLock::new(),
        });
        (Feeder(Arc::clone(&shared)), shared)
    }

    #[inline]
    fn send<M: Send + 'static>(sender: &Feeder<M>, message: M) {
        sender.0.queue.push(message);
        sender.0.wake();
    }

    fn consume<M: Send + 'static>(shared: Arc<Shared<M>>, mut each: impl FnMut(M)) {
        shared.consumer.get_or_init(thread::current);
        let backoff = Backoff::new();
        loop {
            if let Some(message) = shared.queue.pop() {
                each(message);
                backoff.reset();
            } else if shared.closed.load(Ordering::Acquire) {
                return;
            } else if SPIN && !backoff.is_completed() {
                backoff.snooze();
            } else {
                shared.sleep();
            }
        }
    }
}
