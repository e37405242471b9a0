//! The driver of a roaming loop: makes a task of each event and moves the source into it.
//!
//! The driver is part of the loop's core and moves with it between threads. Other threads reach it
//! only through updates.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::internal::{Sleeper, as_nanos, contain};
use tidegate_core::{Clock, Dump, Task};
use tidegate_loop::Roaming;
use tidegate_loop::internal::{Driver, DriverView, Health};

use super::super::core::Reactor;
use super::super::io_context::IoContext;
use super::super::io_watch::IoWatch;
use super::super::polling::{PollOutcome, Polling};
use super::super::source::{IoHandle, Next};
use super::roaming_task::RoamingTask;
use super::updates::{MakeRoamingSource, OnRegistered, RoamingShared, Update};
use crate::metrics::Counters;
use crate::source::{Selector, SharedInbox};
use crate::sys::{Poller, Readiness, Ready, Token};

/// Pause before a loop offers its pool again the tasks that the pool refused.
const REFUSED_PAUSE: Duration = Duration::from_millis(1);
/// Empty roaming tasks that are kept for reuse.
const SPARE_TRIPS: usize = 64;

/// The driver of a roaming loop with I/O, which waits on a poller.
pub(crate) struct RoamingDriver {
    pub(super) reactor: Reactor<Roaming>,
    counters: Arc<Counters>,
    /// Events whose task was refused for lack of a thread; retried when one may be free.
    refused: Vec<Ready>,
    /// The handles of all sources that have one, in their slots or away.
    handles: HashMap<u64, Arc<dyn IoHandle>>,
    /// Number of sources that are away.
    pub(super) away: usize,
    #[expect(clippy::vec_box, reason = "they move between here and tasks")]
    trips: Vec<Box<RoamingTask>>,
    roam: Arc<RoamingShared>,
    updates: Vec<Update>,
    /// The user-defined sources.
    selector: Selector,
    /// The loop is closing: no more events are delivered.
    closing: bool,
}

impl RoamingDriver {
    /// Creates a driver for `poller`.
    pub(crate) fn new(poller: impl Poller) -> Self {
        let counters = Arc::<Counters>::default();
        let polling = Polling::new(poller, Arc::clone(&counters));
        Self {
            roam: RoamingShared::new(polling.waker()),
            reactor: Reactor::new(polling, 1),
            counters,
            refused: Vec::new(),
            handles: HashMap::new(),
            away: 0,
            trips: Vec::new(),
            updates: Vec::new(),
            selector: Selector::new(),
            closing: false,
        }
    }

    /// Returns a view of this driver's counters, to be kept after the driver was given to a loop.
    pub(crate) fn watch(&self) -> IoWatch {
        let roam = Arc::clone(&self.roam);
        IoWatch::of_roaming(Arc::clone(&self.counters), self.inbox(), roam)
    }

    pub(crate) fn roam(&self) -> &Arc<RoamingShared> {
        &self.roam
    }

    /// Returns the inbox of the selector, to be kept after the driver was given to a loop.
    pub(crate) fn inbox(&self) -> &SharedInbox {
        self.selector.inbox()
    }

    /// Polls without waiting. The selector has its turn first: otherwise channels that are always
    /// ready could keep it from coming.
    fn poll(&mut self) {
        if self.reactor.backlog() == 0 && !self.closing && self.selector.comes_before_poll() {
            return;
        }
        let polled = self.reactor.look();
        self.settle(polled);
    }

    /// Closes the sources that a poll has lost, and tells the selector of the poll.
    fn settle(&mut self, polled: PollOutcome) {
        if polled.renewed {
            self.selector.watch_all(&mut self.reactor);
        }
        if polled.selected > 0 || self.selector.expects_poll() {
            self.selector.polled(self.reactor.take_selected());
        }
        for token in polled.lost {
            self.close_home(token);
        }
    }

    /// Carries out the updates of other threads. Returns `true` if there were any.
    fn take_updates(&mut self) -> bool {
        let mut updates = std::mem::take(&mut self.updates);
        self.roam.take(&mut updates);
        let any = !updates.is_empty();
        for update in updates.drain(..) {
            self.update(update);
        }
        self.updates = updates;
        any
    }

    fn update(&mut self, update: Update) {
        match update {
            Update::Register(make, done) => self.register(make, done),
            Update::Tell(token, readiness) => self.reactor.push_due(token, readiness),
            Update::ChannelRequest(token) => self.deliver_requests(token),
            Update::Home(roaming_task, next) => {
                self.home(roaming_task, next);
                // A thread has become free.
                self.resubmit_refused();
            }
            Update::Refused(roaming_task) => {
                let ready = Ready {
                    token: roaming_task.token,
                    readiness: roaming_task.readiness,
                };
                self.home(roaming_task, Next::Stay);
                self.refused.push(ready);
            }
            Update::Handles(visit) => visit(self.handles.values().cloned().collect()),
        }
    }

    fn register(&mut self, make: MakeRoamingSource, done: OnRegistered) {
        if self.closing {
            return done(Err(io::ErrorKind::NotConnected.into()));
        }
        let token = self.reactor.reserve();
        let source = make(token);
        let handle = source.handle();
        if let Err(unwatched) = self.reactor.register(token, source) {
            return done(Err(unwatched.into_error()));
        }
        if let Some(handle) = handle {
            self.handles.insert(token.bits(), handle);
        }
        done(Ok(()));
        self.reactor.push_due(token, Readiness::REQUESTS);
    }

    /// Delivers queued requests to a channel. A channel that is gone has none: it refused them when
    /// it closed.
    fn deliver_requests(&mut self, token: Token) {
        if self.reactor.contains(token) {
            self.reactor.push_due(token, Readiness::REQUESTS);
        }
    }

    /// Puts a source back into its slot.
    fn home(&mut self, mut roaming_task: Box<RoamingTask>, next: Next) {
        self.away -= 1;
        let token = roaming_task.token;
        let adopted = self
            .reactor
            .adopt(token, roaming_task.source.as_deref_mut());
        if !adopted || self.closing {
            roaming_task.close();
        }
        match roaming_task.source.take() {
            None => self.forget(token),
            Some(source) => drop(self.reactor.put(token, source, next)),
        }
        if self.trips.len() < SPARE_TRIPS {
            self.trips.push(roaming_task);
        }
    }

    fn resubmit_refused(&mut self) {
        for ready in self.refused.drain(..) {
            self.reactor.push_again(ready);
        }
    }

    fn forget(&mut self, token: Token) {
        self.reactor.remove(token);
        self.handles.remove(&token.bits());
    }

    /// Returns the peer of the connection that `token` names, as text.
    fn called(&self, token: Token) -> String {
        let handle = self.handles.get(&token.bits());
        let peer = handle.and_then(|handle| handle.peer_addr());
        peer.map_or_else(|| "local".to_owned(), |peer| peer.to_string())
    }

    /// Returns the next event to deliver.
    #[inline]
    fn next_ready(&mut self) -> Option<Ready> {
        self.reactor.next(idle_desk(self.away, &mut self.trips))
    }

    /// Returns the next task of the selector.
    #[inline]
    fn next_of_selector(&mut self) -> Option<Task> {
        if self.selector.is_quiet() {
            return None;
        }
        self.selector.produce(&mut self.reactor)
    }

    fn spare_trip(&mut self) -> Box<RoamingTask> {
        self.trips
            .pop()
            .unwrap_or_else(|| RoamingTask::new(&self.roam))
    }

    /// Closes every source that is in its slot.
    fn close_homes(&mut self) {
        for token in self.reactor.tokens() {
            self.close_home(token);
        }
    }

    fn close_home(&mut self, token: Token) {
        let readiness = Readiness::NONE;
        let Some(source) = self.reactor.take(Ready { token, readiness }) else {
            return;
        };
        let mut roaming_task = self.spare_trip();
        roaming_task.source = Some(source);
        roaming_task.close();
        self.trips.push(roaming_task);
        self.forget(token);
    }
}

/// Returns the I/O context of an unused roaming task. Returns `None` while sources are away: other
/// threads run them, and then each source receives on the thread that runs it.
#[inline]
fn idle_desk(away: usize, trips: &mut [Box<RoamingTask>]) -> Option<&mut IoContext> {
    match away {
        0 => trips
            .last_mut()
            .map(|roaming_task| &mut roaming_task.io_context),
        _ => None,
    }
}

impl Driver for RoamingDriver {
    const SPINS: bool = false;

    fn wait(&mut self, clock: &Clock, deadline: Option<u64>) {
        let any = self.take_updates();
        if self.closing && any {
            // The caller waits for the last source to come back, and has to check again.
            return;
        }
        let busy = self.reactor.backlog() > 0 || !(self.closing || self.selector.is_quiet());
        if busy || !self.roam.fall_asleep() {
            return self.poll();
        }
        let refused = !self.refused.is_empty() || self.selector.has_untaken();
        let pause = refused.then(|| clock.nanos() + as_nanos(REFUSED_PAUSE));
        let deadline = deadline.into_iter().chain(pause).min();
        let polled = self.reactor.wait(clock, deadline);
        self.roam.wake_up();
        self.settle(polled);
        self.resubmit_refused();
    }

    fn waker(&self) -> Arc<dyn Sleeper> {
        self.reactor.polling().waker()
    }

    fn health(&self) -> Health {
        self.reactor.polling().health()
    }

    fn view(&self) -> Option<Arc<dyn DriverView>> {
        Some(self.watch().into_view())
    }

    fn dump(&mut self) -> Option<Dump> {
        let dump = self.watch().describe().fact("away", self.away);
        let away = |token: Token, name: &str| match self.handles.get(&token.bits()) {
            Some(handle) => handle.dump(name),
            None => Dump::new("source", name).fact("state", "in its handlers"),
        };
        Some(self.reactor.dump(dump, away))
    }

    #[inline]
    fn next_task(&mut self) -> Option<Task> {
        self.take_updates();
        while !self.closing {
            let Some(ready) = self.next_ready() else {
                return self.next_of_selector();
            };
            let Some(source) = self.reactor.take(ready) else {
                continue;
            };
            let kind = source.blocking();
            let mut roaming_task = self.spare_trip();
            roaming_task.token = ready.token;
            roaming_task.readiness = ready.readiness;
            roaming_task.source = Some(source);
            self.away += 1;
            return Some(roaming_task.task(kind));
        }
        None
    }

    fn poll(&mut self) {
        self.take_updates();
        self.poll();
    }

    fn backlog(&self) -> usize {
        self.reactor.backlog() + self.selector.backlog()
    }

    fn is_idle(&self) -> bool {
        self.reactor.is_empty() && self.roam.is_empty() && self.selector.is_empty()
    }

    fn begin_shutdown(&mut self) -> bool {
        self.closing = true;
        self.take_updates();
        let _ = contain(|| self.close_homes());
        let settled = self.selector.begin_close(&mut self.reactor);
        settled && self.away == 0
    }

    fn outstanding(&self) -> Vec<String> {
        let away = self.reactor.away().into_iter();
        let away = away.map(|token| self.called(token));
        away.chain(self.selector.outstanding()).collect()
    }

    fn close(&mut self) {
        self.begin_shutdown();
        self.selector.close(&mut self.reactor);
        for update in self.roam.close() {
            self.update(update);
        }
    }
}

impl Drop for RoamingDriver {
    /// Closes the sources in their slots, if the driver is dropped before its loop has ended. A
    /// source that comes back later finds no loop and is closed on its thread, instead of staying
    /// in an inbox that it keeps alive itself.
    fn drop(&mut self) {
        let _ = contain(|| self.close());
    }
}

impl fmt::Debug for RoamingDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoamDriver")
            .field("sources", &self.reactor.len())
            .field("away", &self.away)
            .finish_non_exhaustive()
    }
}
