//! The slab that stores the futures of an event loop. Only the thread that drives the event loop
//! uses it.

use std::future::Future;
use std::pin::Pin;
use std::task::Waker;

pub(super) type SendFuture = Pin<Box<dyn Future<Output = ()> + Send>>;
pub(super) type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;

/// Futures that may move to another thread with their event loop.
pub(crate) type Futures = Slots<SendFuture>;
/// Futures that are not `Send` and stay on their thread.
pub(crate) type LocalFutures = Slots<LocalFuture>;

/// The live futures, by index.
pub(crate) struct Slots<F> {
    slots: Vec<Slot<F>>,
    free: Vec<usize>,
    live: usize,
}

struct Slot<F> {
    /// The number of futures that used this slot before. A late wake-up of an old future has
    /// another generation and is ignored.
    generation: u64,
    future: Option<F>,
    waker: Option<Waker>,
}

/// The slot of a future.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotKey {
    at: usize,
    generation: u64,
}

impl<F> Default for Slots<F> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            live: 0,
        }
    }
}

impl<F> Slots<F> {
    pub(crate) fn is_empty(&self) -> bool {
        self.live == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// Removes and returns all live futures, except one that is being polled. The caller drops them
    /// after the borrow of the slab has ended. The generations start again at 0, so this is called
    /// only at the end of the event loop.
    pub(crate) fn drain(&mut self) -> Vec<F> {
        self.live = 0;
        self.free.clear();
        let mut futures = Vec::new();
        for slot in &mut self.slots {
            futures.extend(slot.future.take());
        }
        self.slots.clear();
        futures
    }

    pub(super) fn insert(&mut self, future: F) -> SlotKey {
        self.live += 1;
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                future: None,
                waker: None,
            });
            self.slots.len() - 1
        });
        let slot = &mut self.slots[at];
        slot.future = Some(future);
        SlotKey {
            at,
            generation: slot.generation,
        }
    }

    /// Stores the waker of the future at `place`, which must be live.
    pub(super) fn set_waker(&mut self, place: SlotKey, waker: Waker) {
        self.slots[place.at].waker = Some(waker);
    }

    /// Takes the future out to poll or drop it, and clones its waker. The slot stays in use until
    /// `put_back` or `free`. Returns `None` if the future has ended or is being polled.
    pub(super) fn take(&mut self, place: SlotKey) -> Option<(F, Option<Waker>)> {
        let slot = self.slots.get_mut(place.at)?;
        if slot.generation != place.generation {
            return None;
        }
        let future = slot.future.take()?;
        Some((future, slot.waker.clone()))
    }

    pub(super) fn put_back(&mut self, place: SlotKey, future: F) {
        if let Some(slot) = self.slots.get_mut(place.at) {
            slot.future = Some(future);
        }
    }

    pub(super) fn free(&mut self, place: SlotKey) {
        if let Some(slot) = self.slots.get_mut(place.at) {
            slot.generation += 1;
            slot.waker = None;
            self.free.push(place.at);
            self.live -= 1;
        }
    }
}
