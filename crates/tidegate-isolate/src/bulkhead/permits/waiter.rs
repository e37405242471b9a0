//! One that waits for a permit: a thread that sleeps, or a future that is polled.
//!
//! Its state leaves [`WAITING`] once, by whoever serves it, turns it away, or by itself when it
//! leaves. A permit that was taken for it is its own from then on.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use tidegate_core::{Clock, Parker};

use crate::bulkhead::partition::Criticality;

pub(super) const WAITING: u8 = 0;
/// A permit was taken for this waiter.
pub(super) const SERVED: u8 = 1;
/// It waited too long for its discipline.
pub(super) const TURNED_AWAY: u8 = 2;
/// It left.
pub(super) const GONE: u8 = 3;
/// Everything ends: it need not wait any longer.
pub(super) const CLOSED: u8 = 4;

/// A place among those who wait for a permit.
#[derive(Debug)]
pub(crate) struct Place {
    pub(super) waiter: Arc<Waiter>,
    pub(super) id: u64,
    /// When the wait is over.
    pub(crate) until: u64,
}

impl Place {
    /// Wakes whoever waits there, so that it looks at the time: when it is called, and when it is
    /// dropped uncalled.
    pub(crate) fn poke(&self) -> impl FnOnce() + Send + use<> {
        let poke = Poke(Arc::clone(&self.waiter));
        move || drop(poke)
    }
}

struct Poke(Arc<Waiter>);

impl Drop for Poke {
    fn drop(&mut self) {
        self.0.wake();
    }
}

#[derive(Debug)]
pub(super) struct Waiter {
    /// Who is told; a future says it anew whenever it is polled.
    waker: Mutex<Option<Waker>>,
    state: AtomicU8,
    pub(super) criticality: Criticality,
}

impl Waiter {
    pub(super) fn new(criticality: Criticality, waker: &Waker) -> Self {
        Self {
            waker: Mutex::new(Some(waker.clone())),
            state: AtomicU8::new(WAITING),
            criticality,
        }
    }

    pub(super) fn state(&self) -> u8 {
        // ORDERING: Acquire pairs with the Release in `decide`: what the decider did before, such
        // as to take the permit, comes before what the waiter does with it.
        self.state.load(Ordering::Acquire)
    }

    /// Sleeps until somebody decides, or gives up at `until`; answers how it ended.
    pub(super) fn wait(&self, clock: &Clock, parker: &Parker, until: u64) -> u8 {
        loop {
            let state = self.state();
            if state != WAITING {
                return state;
            }
            if clock.nanos() >= until {
                return match self.decide(GONE) {
                    Ok(_) => GONE,
                    Err(state) => state,
                };
            }
            clock.park_until(parker, Some(until));
        }
    }

    pub(super) fn set_waker(&self, waker: &Waker) {
        let lock = || self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        let is_set = lock().as_ref().is_some_and(|old| old.will_wake(waker));
        if !is_set {
            // A waker is user code: it is cloned before, and dropped after the lock is held.
            let new = waker.clone();
            let old = lock().replace(new);
            drop(old);
        }
    }

    /// Decides how the wait ends; an error when that was decided before. Whoever decides wakes.
    pub(super) fn decide(&self, how: u8) -> Result<u8, u8> {
        // ORDERING: Release pairs with the Acquire in `state`. Acquire, as there: one that is too
        // late learns what was decided, and may own a permit.
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        self.state.compare_exchange(WAITING, how, success, failure)
    }

    pub(super) fn wake(&self) {
        let waker = self.waker.lock();
        let waker = waker.unwrap_or_else(PoisonError::into_inner).take();
        waker.into_iter().for_each(Waker::wake);
    }
}
