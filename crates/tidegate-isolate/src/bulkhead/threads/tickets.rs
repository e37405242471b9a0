//! The tickets of the calls that wait in a queue of the program.
//!
//! A ticket is counted until it has run, was dropped, or *leaves*: somebody has reserved it, under
//! the lock, to take it out of the worker pool. So two threads never take two tickets for one call
//! that is gone.
//!
//! The ticket whose thread *asks* the queue is a right to a thread like any other, as long as the queue
//! keeps its contract. If the queue does not return, no call may rely on that ticket: so none is taken out
//! because of it.

use std::collections::HashMap;

use tidegate_pool::queue::JobKey;

/// The tickets that have neither run nor been dropped.
#[derive(Default)]
pub(super) struct Tickets {
    places: HashMap<u64, Place>,
    leaving: usize,
    /// The ticket whose thread asks the queue, until it has run or was removed.
    asking: Option<u64>,
}

enum Place {
    /// On its way into the worker pool, or on a thread.
    Unknown,
    Queued(JobKey),
    Leaving,
}

impl Tickets {
    /// Returns the number of tickets that do not leave.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.leaving
    }

    /// Returns `true` if there are more tickets than these calls need, even if the queue does not return.
    pub(super) fn are_too_many_for(&self, calls: usize) -> bool {
        self.len() > calls + usize::from(self.asking.is_some())
    }

    pub(super) fn add(&mut self, ticket: u64) {
        self.places.insert(ticket, Place::Unknown);
    }

    /// Removes a ticket. Returns `false` if it was removed before.
    pub(super) fn remove(&mut self, ticket: u64) -> bool {
        let place = self.places.remove(&ticket);
        if matches!(place, Some(Place::Leaving)) {
            self.leaving -= 1;
        }
        self.asking = self.asking.filter(|asking| *asking != ticket);
        place.is_some()
    }

    /// Notes that the thread of a ticket asks the queue.
    pub(super) fn asks(&mut self, ticket: u64) {
        self.stays(ticket);
        if self.places.contains_key(&ticket) {
            self.asking = Some(ticket);
        }
    }

    /// Notes the place of a ticket in the queue of the worker pool.
    pub(super) fn set_key(&mut self, ticket: u64, key: JobKey) {
        if let Some(place) = self.places.get_mut(&ticket) {
            *place = Place::Queued(key);
        }
    }

    /// Reserves a ticket of the queue for its caller, who takes it out.
    pub(super) fn let_one_leave(&mut self) -> Option<(u64, JobKey)> {
        for (id, place) in &mut self.places {
            if let Place::Queued(key) = *place {
                *place = Place::Leaving;
                self.leaving += 1;
                return Some((*id, key));
            }
        }
        None
    }

    /// Counts a ticket again that was on a thread already when it was to be taken out.
    pub(super) fn stays(&mut self, ticket: u64) {
        if let Some(place @ Place::Leaving) = self.places.get_mut(&ticket) {
            *place = Place::Unknown;
            self.leaving -= 1;
        }
    }
}
