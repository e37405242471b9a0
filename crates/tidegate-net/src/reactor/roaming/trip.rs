//! One event of a roaming source: from its slot to the thread that runs it, and back.

use std::sync::Arc;

use tidegate_core::{Blocking, Task, contain};

use super::super::desk::Desk;
use super::super::source::{Next, close_and_drop};
use super::updates::{Roam, Traveller, Update};
use crate::sys::{Readiness, Token};

/// A roaming source in its task, with its I/O context. Reused for the next event.
pub(crate) struct Trip {
    pub(super) token: Token,
    pub(super) readiness: Readiness,
    /// `None` if it has left for good.
    pub(super) source: Option<Traveller>,
    pub(super) desk: Desk,
    pub(super) roam: Arc<Roam>,
}

impl Trip {
    /// Creates an empty one.
    pub(super) fn new(roam: &Arc<Roam>) -> Box<Self> {
        Box::new(Self {
            token: Token::from_bits(0),
            readiness: Readiness::NONE,
            source: None,
            desk: Desk::new(roam.more_counters()),
            roam: Arc::clone(roam),
        })
    }

    /// Returns the task that runs the source.
    pub(super) fn task(self: Box<Self>, kind: Blocking) -> Task {
        let journey = Journey(Some(self));
        Task::of(kind, move || journey.run())
    }

    /// Closes the source on this thread.
    pub(super) fn close(&mut self) {
        if let Some(source) = self.source.take() {
            close_and_drop(source, &mut self.desk);
        }
    }

    /// Sends the source back to its loop. If the loop has ended, closes the source on this thread.
    fn go_home(self: Box<Self>, how: impl FnOnce(Box<Self>) -> Update) {
        let roam = Arc::clone(&self.roam);
        if let Err(Update::Home(mut trip, _) | Update::Refused(mut trip)) = roam.push(how(self)) {
            trip.close();
        }
    }
}

/// A `Trip` inside a task. If the task is dropped without having run, the source goes back to its
/// loop with its event undelivered.
struct Journey(Option<Box<Trip>>);

impl Journey {
    fn run(mut self) {
        let Some(mut trip) = self.0.take() else {
            return;
        };
        let Trip {
            source,
            desk,
            readiness,
            ..
        } = &mut *trip;
        let told = contain(|| match source {
            Some(source) => source.ready(*readiness, desk),
            None => Next::Leave,
        });
        let next = *told.as_ref().unwrap_or(&Next::Leave);
        let gone = match next {
            // Its drop may be user code: here it does not hold up the loop.
            Next::Leave => contain(|| drop(source.take())).err(),
            _ => None,
        };
        trip.go_home(|trip| Update::Home(trip, next));
        if let Some(panic) = told.err().or(gone) {
            panic.resume();
        }
    }
}

impl Drop for Journey {
    fn drop(&mut self) {
        if let Some(trip) = self.0.take() {
            trip.go_home(Update::Refused);
        }
    }
}
