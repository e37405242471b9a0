//! A waiter for a permit: a thread that sleeps, a future that is polled, or a handler that is
//! notified.
//!
//! Its state changes from [`WAITING`] exactly once (`waiter_word`): when a permit is assigned to it,
//! when it is turned away, or when it leaves. A permit that was taken for it belongs to it from then
//! on.

use std::sync::{Arc, Mutex};
use std::task::Waker;

use tidegate_core::{Clock, Parker};

use super::waiter_word::WaiterWord;
use crate::bulkhead::partition::Criticality;
use crate::error::Rejection;
use crate::lock::lock;
use tidegate_core::internal::unpoisoned;

pub(super) const WAITING: u8 = WaiterWord::WAITING;
pub(super) const SERVED: u8 = WaiterWord::SERVED;
pub(super) const TURNED_AWAY: u8 = WaiterWord::TURNED_AWAY;
pub(super) const GONE: u8 = WaiterWord::GONE;
pub(super) const CLOSED: u8 = WaiterWord::CLOSED;
pub(super) const DISPLACED: u8 = WaiterWord::DISPLACED;

/// A slot in the queue of waiters for a permit.
#[derive(Debug)]
pub(crate) struct Place {
    pub(super) waiter: Arc<Waiter>,
    pub(super) id: u64,
    /// The time at which the wait ends.
    pub(crate) until: u64,
    /// The call has no time left then, or else the queue lets no call wait longer.
    pub(super) ends_call: bool,
}

/// Why a wait has ended without a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoPermit {
    Refused(Rejection),
    /// The deadline of the call has passed.
    Late,
}

impl Place {
    /// Returns why a wait that ended in this state has no permit.
    pub(super) fn refusal(&self, state: u8) -> NoPermit {
        match state {
            GONE if self.ends_call => NoPermit::Late,
            CLOSED => NoPermit::Refused(Rejection::Closed),
            _ => NoPermit::Refused(Rejection::Permits),
        }
    }

    /// Returns a closure that ends the wait, if it is not decided yet, and wakes the waiter. The
    /// timer calls it when the time of the wait is over. The waiter's own clock may be a little
    /// behind the timer's, so the waiter does not decide it again. If the closure is dropped without
    /// being called, the waiter is only woken.
    pub(crate) fn end_task(&self) -> impl FnOnce() + Send + use<> {
        let wake_task = WakeWaiter(Arc::clone(&self.waiter));
        move || {
            let _ = wake_task.0.decide(GONE);
            drop(wake_task);
        }
    }
}

struct WakeWaiter(Arc<Waiter>);

impl Drop for WakeWaiter {
    fn drop(&mut self) {
        self.0.wake();
    }
}

#[derive(Debug)]
pub(super) struct Waiter {
    /// The waker of the waiter; a future updates it at each poll.
    waker: Mutex<Option<Waker>>,
    word: WaiterWord,
    pub(super) criticality: Criticality,
}

impl Waiter {
    pub(super) fn new(criticality: Criticality, waker: &Waker) -> Self {
        Self {
            waker: Mutex::new(Some(waker.clone())),
            word: WaiterWord::default(),
            criticality,
        }
    }

    pub(super) fn state(&self) -> u8 {
        self.word.get()
    }

    /// Blocks until the wait is decided, or gives up at `until` or when `may_wait` returns `false`.
    /// Returns the final state.
    pub(super) fn wait(
        &self,
        clock: &Clock,
        parker: &Parker,
        until: u64,
        mut may_wait: impl FnMut() -> bool,
    ) -> u8 {
        loop {
            let state = self.state();
            if state != WAITING {
                return state;
            }
            if clock.nanos() >= until || !may_wait() {
                return match self.decide(GONE) {
                    Ok(_) => GONE,
                    Err(state) => state,
                };
            }
            clock.park_until(parker, Some(until));
        }
    }

    pub(super) fn set_waker(&self, waker: &Waker) {
        let lock = || lock(&self.waker);
        let is_set = lock().as_ref().is_some_and(|old| old.will_wake(waker));
        if !is_set {
            // A waker is user code: it is cloned before the lock is taken, and dropped after it is
            // released.
            let new = waker.clone();
            let old = lock().replace(new);
            drop(old);
        }
    }

    /// Decides how the wait ends. Returns the earlier decision as an error, if there was one. The
    /// thread that decides must wake the waiter.
    pub(super) fn decide(&self, how: u8) -> Result<(), u8> {
        self.word.decide(how)
    }

    /// Wakes the waiter, also if its wait is not decided: it keeps its waker then.
    pub(super) fn wake(&self) {
        let lock = || unpoisoned(self.waker.lock());
        let waker = lock().take();
        let Some(waker) = waker else { return };
        if self.state() != WAITING {
            return waker.wake();
        }
        // A thread that decides in between finds no waker. This one wakes the waiter after it.
        let own = waker.clone();
        let mut slot = lock();
        let left = match *slot {
            None => slot.replace(waker),
            Some(_) => Some(waker),
        };
        drop(slot);
        drop(left);
        own.wake();
    }
}
