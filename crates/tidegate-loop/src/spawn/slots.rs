//! Where the futures of a loop live: a slab on its thread.

use std::future::Future;
use std::pin::Pin;
use std::task::Waker;

pub(super) type SendFuture = Pin<Box<dyn Future<Output = ()> + Send>>;
pub(super) type LocalFuture = Pin<Box<dyn Future<Output = ()>>>;

/// Futures that may move to another thread with their loop.
pub(crate) type Futures = Slots<SendFuture>;
/// Futures that stay on their thread.
pub(crate) type LocalFutures = Slots<LocalFuture>;

/// Live futures by number.
pub(crate) struct Slots<F> {
    slots: Vec<Slot<F>>,
    free: Vec<usize>,
    live: usize,
}

struct Slot<F> {
    /// Counts the futures that lived here, so that a late wake of an old one finds another.
    generation: u64,
    future: Option<F>,
    waker: Option<Waker>,
}

/// Where a future lives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
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

    /// Takes all live futures out, to be dropped outside the borrow.
    pub(crate) fn drain(&mut self) -> Vec<F> {
        self.live = 0;
        self.free.clear();
        let slots = self.slots.drain(..);
        slots.filter_map(|slot| slot.future).collect()
    }

    pub(super) fn insert(&mut self, future: F) -> Place {
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
        Place {
            at,
            generation: slot.generation,
        }
    }

    /// Keeps the waker of the future at `place`, which is there.
    pub(super) fn set_waker(&mut self, place: Place, waker: Waker) {
        self.slots[place.at].waker = Some(waker);
    }

    /// Takes the future out to poll or drop it; `None` if it is gone or being polled.
    pub(super) fn take(&mut self, place: Place) -> Option<(F, Option<Waker>)> {
        let slot = self.slots.get_mut(place.at)?;
        if slot.generation != place.generation {
            return None;
        }
        let future = slot.future.take()?;
        Some((future, slot.waker.clone()))
    }

    pub(super) fn put_back(&mut self, place: Place, future: F) {
        if let Some(slot) = self.slots.get_mut(place.at) {
            slot.future = Some(future);
        }
    }

    pub(super) fn free(&mut self, place: Place) {
        if let Some(slot) = self.slots.get_mut(place.at) {
            slot.generation += 1;
            slot.waker = None;
            self.free.push(place.at);
            self.live -= 1;
        }
    }
}
