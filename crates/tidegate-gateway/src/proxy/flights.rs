//! The requests of one client's connection that are passed on, and their times.
//!
//! One timer serves for all of them: it is set for the request whose time is over first, and stays
//! when that request ends. When it fires, it is set again if there is still a request to watch. So a
//! connection with many short requests sets a timer once in the time of its route.
//!
//! # Invariants
//!
//! * While a request with a limit is in progress, the timer is set for its end or earlier.
//! * No request is ended or dropped while the state is borrowed.
//! * Everything runs on the loop of the connection. A connection that is dropped elsewhere leaves its
//!   requests to the loop.

use std::cell::{RefCell, RefMut};
use std::sync::Arc;
use std::time::Duration;

use tidegate::loops::CoarseTimer;
use tidegate_core::internal::HomeCell;

use super::gate::Gate;
use super::handle::{Handle, Recycled, WeakHandle};
use crate::command::Reason;

/// A request whose time is watched.
pub(super) trait Watched: Recycled {
    /// Returns when the time of the request is over, as long as the connection watches it.
    fn until(request: &Handle<Self>) -> u64;

    /// Ends the request because its time is over.
    fn time_out(request: &Handle<Self>);

    /// Ends the request because its connection has ended: for this reason, or because the client has
    /// left.
    fn abandon(request: &Handle<Self>, why: Option<Reason>);
}

/// The requests of one connection.
pub(super) struct Flights<T: Watched> {
    gate: Arc<Gate>,
    /// The number of the connection's loop.
    home: usize,
    state: HomeCell<RefCell<State<T>>>,
}

struct State<T> {
    /// Those in progress, and some that have ended.
    all: Vec<WeakHandle<T>>,
    /// With the time for which it is set.
    timer: Option<(CoarseTimer, u64)>,
}

impl<T: Watched> Flights<T> {
    pub(super) fn new(gate: &Arc<Gate>, home: usize) -> Arc<Self> {
        Arc::new(Self {
            gate: Arc::clone(gate),
            home,
            state: HomeCell::new(RefCell::new(State {
                all: Vec::new(),
                timer: None,
            })),
        })
    }

    /// Returns the number of the connection's loop.
    pub(super) fn home(&self) -> usize {
        self.home
    }

    /// Adds a request, and watches its time.
    pub(super) fn add(self: &Arc<Self>, flight: &Handle<T>, until: u64) {
        let Some(mut state) = self.borrow() else {
            return;
        };
        // Usually it is empty: the client waits for one response at a time.
        state.all.retain(|flight| !flight.has_ended());
        state.all.push(flight.downgrade());
        let is_watched = state.timer.as_ref().is_some_and(|(_, set)| *set <= until);
        if until == u64::MAX || is_watched {
            return;
        }
        let before = self.set_timer(&mut state, until);
        drop(state);
        if let Some((timer, _)) = before {
            timer.cancel();
        }
    }

    /// Forgets a request that has ended. Returns `false` if it is not known, or if this is not the
    /// thread of the loop.
    pub(super) fn forget(&self, is_it: impl Fn(&WeakHandle<T>) -> bool) -> bool {
        let state = self.state.get();
        let Some(mut state) = state.and_then(|state| state.try_borrow_mut().ok()) else {
            return false;
        };
        let at = state.all.iter().position(is_it);
        if let Some(at) = at {
            state.all.swap_remove(at);
        }
        at.is_some()
    }

    /// Ends all requests: their connection has ended for this reason, or their client has left.
    pub(super) fn abandon(self: &Arc<Self>, why: Option<Reason>) {
        let flights = Arc::clone(self);
        let abandon = move || flights.abandon_here(why);
        self.gate.on_loop(self.home, abandon);
    }

    fn abandon_here(&self, why: Option<Reason>) {
        let Some(mut state) = self.borrow() else {
            return;
        };
        let (all, timer) = (std::mem::take(&mut state.all), state.timer.take());
        drop(state);
        if let Some((timer, _)) = timer {
            timer.cancel();
        }
        for flight in all.iter().filter_map(WeakHandle::upgrade) {
            T::abandon(&flight, why);
        }
    }

    /// Ends the requests whose time is over, and watches the others.
    fn expire(self: &Arc<Self>) {
        let now = self.gate.now(self.home);
        let Some(mut state) = self.borrow() else {
            return;
        };
        state.timer = None;
        let alive = state.all.iter().filter_map(WeakHandle::upgrade);
        let alive: Vec<_> = alive.collect();
        let later = alive.iter().map(T::until);
        let next = later
            .filter(|until| *until > now && *until < u64::MAX)
            .min();
        if let Some(next) = next {
            self.set_timer(&mut state, next);
        }
        drop(state);
        for flight in alive {
            if T::until(&flight) <= now {
                T::time_out(&flight);
            }
        }
    }

    /// Sets the timer. Returns the one before, which has to be cancelled.
    fn set_timer(self: &Arc<Self>, state: &mut State<T>, until: u64) -> Option<(CoarseTimer, u64)> {
        let flights = Arc::downgrade(self);
        let after = until.saturating_sub(self.gate.now(self.home));
        let timer = self
            .gate
            .after(self.home, Duration::from_nanos(after), move || {
                if let Some(flights) = flights.upgrade() {
                    flights.expire();
                }
            });
        std::mem::replace(&mut state.timer, timer.map(|timer| (timer, until)))
    }

    /// Borrows the state. `None` on any thread but the loop's.
    fn borrow(&self) -> Option<RefMut<'_, State<T>>> {
        let state = self.state.get();
        let state = state.and_then(|state| state.try_borrow_mut().ok());
        debug_assert!(
            state.is_some(),
            "it is used on the loop, one step at a time"
        );
        state
    }
}
