//! The driver of a pinned loop.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use tidegate_core::internal::{PlainTask, Running, Sleeper};
use tidegate_core::{Clock, Dump, Task};
use tidegate_loop::internal::{Driver, DriverView, Health};

use super::io_watch::IoWatch;
use super::pinned::{self, LocalControl, LocalReactor};
use super::polling::{PollOutcome, Polling};
use crate::metrics::Counters;
use crate::source::{Selector, SharedInbox};
use crate::sys::{PIECES, Poller};

/// The driver of a pinned loop with I/O, which waits on a poller.
pub(crate) struct PollDriver {
    id: u64,
    /// `None` while a thread drives the loop.
    polling: Option<Polling>,
    waker: Arc<dyn Sleeper>,
    health: Health,
    counters: Arc<Counters>,
    /// The reactor that was current on this thread before.
    outer: Option<u64>,
    /// Events that are ready to be delivered.
    ready: usize,
    /// The user-defined sources.
    selector: Selector,
    /// The first generation of the next reactor, so that a token is never used twice.
    generation: u32,
}

impl PollDriver {
    /// Creates a driver for `poller`.
    pub(crate) fn new(poller: impl Poller) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let counters = Arc::<Counters>::default();
        let polling = Polling::new(poller, Arc::clone(&counters));
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            waker: polling.waker(),
            health: polling.health(),
            polling: Some(polling),
            counters,
            outer: None,
            ready: 0,
            selector: Selector::new(),
            generation: 1,
        }
    }

    /// Returns a view of this driver's counters, to be kept after the driver was given to a loop.
    pub(crate) fn watch(&self) -> IoWatch {
        IoWatch {
            counters: Arc::clone(&self.counters),
            inbox: Arc::clone(self.inbox()),
            pinned: Some(self.id),
            roam: Weak::new(),
        }
    }

    /// Returns the inbox of the selector, to be kept after the driver was given to a loop.
    pub(crate) fn inbox(&self) -> &SharedInbox {
        self.selector.inbox()
    }

    /// Records the result of a poll.
    #[inline]
    fn settle(&mut self, polled: Option<PollOutcome>) {
        let polled = polled.unwrap_or_default();
        self.ready = polled.ready;
        if polled.selected > 0 || self.selector.expects_poll() {
            self.selector.polled(pinned::take_selected());
        }
    }

    /// Returns the next task of the selector.
    #[inline]
    fn next_of_selector(&mut self) -> Option<(Task, usize)> {
        if self.ready > 0 || self.selector.is_quiet() {
            return None;
        }
        let task = self.selector.produce(&mut LocalControl)?;
        Some((task, 1))
    }
}

impl Driver for PollDriver {
    // A wait polls the sockets, which is better than spinning on the task lanes alone.
    const SPINS: bool = false;

    fn enter(&mut self) {
        let polling = &mut self.polling;
        let (id, generation) = (self.id, self.generation);
        self.outer = pinned::enter(id, || {
            let polling = polling.take().expect("a loop has one reactor at a time");
            LocalReactor::new(id, polling, generation)
        });
        pinned::with(|local| local.set_running(Running::of_thread()));
    }

    fn leave(&mut self) {
        if let Some(local) = pinned::leave(self.outer.take()) {
            let (polling, generation) = local.into_polling();
            self.generation = generation;
            self.polling = Some(polling);
        }
    }

    fn wait(&mut self, clock: &Clock, deadline: Option<u64>) {
        if !self.selector.is_quiet() {
            return self.poll();
        }
        let polled = pinned::with(|local| local.reactor().wait(clock, deadline));
        self.settle(polled);
    }

    fn waker(&self) -> Arc<dyn Sleeper> {
        Arc::clone(&self.waker)
    }

    fn health(&self) -> Health {
        self.health.clone()
    }

    fn view(&self) -> Option<Arc<dyn DriverView>> {
        Some(Arc::new(self.watch()))
    }

    fn dump(&mut self) -> Option<Dump> {
        Some(self.watch().dump())
    }

    #[inline]
    fn next_tasks(&mut self, most: usize) -> Option<(Task, usize)> {
        let few = self.ready.min(most).min(PIECES);
        if few == 0 {
            return self.next_of_selector();
        }
        self.ready -= few;
        let task = PlainTask::non_blocking(move || pinned::dispatch_few(few));
        Some((task, few))
    }

    fn poll(&mut self) {
        if self.ready == 0 && self.selector.comes_before_poll() {
            // Otherwise channels that are always ready could keep its turn from coming.
            return;
        }
        let polled = pinned::with(|local| local.reactor().look());
        self.settle(polled);
    }

    fn is_idle(&self) -> bool {
        self.selector.is_empty() && pinned::with(|local| local.is_empty()).unwrap_or(true)
    }

    fn close(&mut self) {
        self.selector.close(&mut LocalControl);
        pinned::close();
    }
}
