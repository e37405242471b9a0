//! The driver of a roaming loop: makes tasks of events and moves the sources into them.
//!
//! The driver is part of the loop's core and moves with it between threads. Other threads reach it
//! only through updates, and through the task that it has handed out last.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::internal::{Sleeper, as_nanos, contain};
use tidegate_core::{Blocking, Clock, Dump, Task};
use tidegate_loop::Roaming;
use tidegate_loop::internal::{Driver, DriverView, Health};

use super::super::core::Reactor;
use super::super::io_context::IoContext;
use super::super::io_watch::IoWatch;
use super::super::polling::{PollOutcome, Polling};
use super::super::source::{IoHandle, Next, close_and_drop};
use super::group_size::GroupSize;
use super::roaming_task::{Load, RoamingTask, Traveller};
use super::updates::{MakeRoamingSource, OnRegistered, RoamingShared, RoamingSource, Update};
use crate::metrics::Counters;
use crate::source::{Selector, SharedInbox};
use crate::sys::{PIECES, Poller, Readiness, Ready, Token};

/// Pause before a loop offers its pool again the tasks that the pool refused.
const REFUSED_PAUSE: Duration = Duration::from_millis(1);
/// Roaming tasks and I/O contexts that are kept for reuse.
const SPARE: usize = 64;

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
    /// The task that was handed out last, until the loop goes on.
    last: Option<Arc<RoamingTask>>,
    /// The number of sources that it has, or had.
    last_size: usize,
    pub(super) group_size: GroupSize,
    /// Events that were recalled from a task. They come before all others.
    recalled: VecDeque<Ready>,
    /// The sources of the next task; empty between two calls.
    group: VecDeque<Traveller>,
    /// What a task brings back; empty between two calls.
    arrivals: Load,
    /// Tasks that are over, to be used again.
    spare_tasks: Vec<Arc<RoamingTask>>,
    #[expect(clippy::vec_box, reason = "they move between here and tasks")]
    io_contexts: Vec<Box<IoContext>>,
    /// The counters of I/O contexts that were dropped, which the next ones go on with.
    spare_counters: Vec<Arc<Counters>>,
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
            last: None,
            last_size: 0,
            group_size: GroupSize::new(),
            recalled: VecDeque::new(),
            group: VecDeque::with_capacity(PIECES),
            arrivals: Load::default(),
            spare_tasks: Vec::new(),
            io_contexts: Vec::new(),
            spare_counters: Vec::new(),
            updates: Vec::new(),
            selector: Selector::new(),
            closing: false,
        }
    }

    /// Returns a view of this driver's counters, to be kept after the driver was given to a loop.
    pub(crate) fn watch(&self) -> IoWatch {
        IoWatch {
            counters: Arc::clone(&self.counters),
            inbox: Arc::clone(self.inbox()),
            pinned: None,
            roam: Arc::downgrade(&self.roam),
        }
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
        if self.events() == 0 && !self.closing && self.selector.comes_before_poll() {
            return;
        }
        let polled = self.reactor.look();
        self.settle(polled);
    }

    /// Passes the events of user-defined sources to the selector.
    fn settle(&mut self, polled: PollOutcome) {
        if polled.selected > 0 || self.selector.expects_poll() {
            self.selector.polled(self.reactor.take_selected());
        }
    }

    /// Returns the number of events to deliver, without polling.
    fn events(&self) -> usize {
        self.recalled.len() + self.reactor.backlog()
    }

    /// Looks after the last task, and carries out the updates of other threads. Returns `true` if
    /// there were any, or if the last task was over.
    fn take_updates(&mut self) -> bool {
        let over = self.look_after_last();
        let mut updates = std::mem::take(&mut self.updates);
        self.roam.take(&mut updates);
        let any = !updates.is_empty();
        for update in updates.drain(..) {
            self.update(update);
        }
        self.updates = updates;
        any || over
    }

    /// Takes back what the last task has left. Returns `true` if it was over.
    #[inline]
    fn look_after_last(&mut self) -> bool {
        let Some(task) = self.last.take() else {
            return false;
        };
        let over = self.arrive(task);
        match over {
            true => self.group_size.was_over(self.last_size),
            false => self.group_size.was_left(self.last_size),
        }
        over
    }

    /// Puts the sources back that a task has left. Returns `true` if the task is over.
    fn arrive(&mut self, task: Arc<RoamingTask>) -> bool {
        let mut load = std::mem::take(&mut self.arrivals);
        let over = task.recall(&mut load);
        if let Some(io_context) = load.io_context.take() {
            self.keep_io_context(io_context);
        }
        let any = !load.done.is_empty();
        for (traveller, next) in load.done.drain(..) {
            self.home(traveller, next);
        }
        if any {
            // A thread has become free.
            self.resubmit_refused();
        }
        for traveller in load.waiting.drain(..) {
            let ready = traveller.ready;
            self.home(traveller, Next::Stay);
            match over {
                true => self.refused.push(ready),
                false => self.recalled.push_back(ready),
            }
        }
        self.arrivals = load;
        if over && self.spare_tasks.len() < SPARE {
            self.spare_tasks.push(task);
        }
        over
    }

    fn update(&mut self, update: Update) {
        match update {
            Update::Register(make, done) => self.register(make, done),
            Update::Requests(token) => self.deliver_requests(token),
            Update::Home(task) => {
                self.arrive(task);
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
    fn home(&mut self, traveller: Traveller, next: Next) {
        self.away -= 1;
        let token = traveller.ready.token;
        match traveller.source {
            None => self.forget(token),
            Some(source) if !self.closing => {
                drop(self.reactor.put(token, source, next));
            }
            Some(source) => {
                self.close_source(source);
                self.forget(token);
            }
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
        handle.map_or_else(|| "local".to_owned(), |handle| handle.peer_name())
    }

    /// Returns the next event to deliver.
    #[inline]
    fn next_ready(&mut self) -> Option<Ready> {
        if let Some(ready) = self.recalled.pop_front() {
            return Some(ready);
        }
        self.reactor
            .next(idle_io_context(self.away, &mut self.io_contexts))
    }

    /// Takes sources with events out of their slots, at most `most` of the same kind, into `group`.
    /// Returns their kind.
    #[inline]
    fn gather(&mut self, most: usize) -> Option<Blocking> {
        let mut kind = None;
        while self.group.len() < most && !self.closing {
            if kind.is_some() && !self.continues(kind) {
                break;
            }
            let Some(ready) = self.next_ready() else {
                break;
            };
            if let Some(source) = self.reactor.take(ready) {
                kind = Some(source.blocking());
                let source = Some(source);
                self.group.push_back(Traveller { ready, source });
                self.away += 1;
            }
        }
        kind
    }

    /// Returns `true` if the next event belongs to a task whose sources are of this `kind`.
    #[inline]
    fn continues(&self, kind: Option<Blocking>) -> bool {
        let next = match self.recalled.front() {
            Some(ready) => Some(*ready),
            None => self.reactor.peek_in_batch(),
        };
        let source = next.and_then(|ready| self.reactor.peek(ready.token));
        source.is_some_and(|source| Some(source.blocking()) == kind)
    }

    /// Returns the next task of the selector.
    #[inline]
    fn next_of_selector(&mut self) -> Option<Task> {
        if self.selector.is_quiet() {
            return None;
        }
        self.selector.produce(&mut self.reactor)
    }

    fn io_context(&mut self) -> Box<IoContext> {
        self.io_contexts.pop().unwrap_or_else(|| {
            let counters = self.spare_counters.pop();
            let counters = counters.unwrap_or_else(|| self.roam.more_counters());
            Box::new(IoContext::new(counters))
        })
    }

    fn keep_io_context(&mut self, io_context: Box<IoContext>) {
        match self.io_contexts.len() < SPARE {
            true => self.io_contexts.push(io_context),
            false => self.spare_counters.push(io_context.counters),
        }
    }

    /// Closes a source on this thread.
    fn close_source(&mut self, source: RoamingSource) {
        let mut io_context = self.io_context();
        close_and_drop(source, &mut io_context);
        self.keep_io_context(io_context);
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
        self.close_source(source);
        self.forget(token);
    }
}

/// Returns an unused I/O context. Returns `None` while sources are away: other threads run them, and
/// then each source receives on the thread that runs it.
#[inline]
fn idle_io_context(away: usize, unused: &mut [Box<IoContext>]) -> Option<&mut IoContext> {
    match away {
        0 => unused.last_mut().map(|io_context| &mut **io_context),
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
        let busy = self.events() > 0 || !(self.closing || self.selector.is_quiet());
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
        Some(Arc::new(self.watch()))
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
    fn next_tasks(&mut self, most: usize) -> Option<(Task, usize)> {
        self.take_updates();
        let Some(kind) = self.gather(most.min(self.group_size.get())) else {
            if self.closing {
                return None;
            }
            return self.next_of_selector().map(|task| (task, 1));
        };
        let roaming_task = self.spare_tasks.pop();
        let roaming_task = roaming_task.unwrap_or_else(|| RoamingTask::new(&self.roam));
        let io_context = self.io_context();
        self.last_size = self.group.len();
        let task = roaming_task.task(kind, &mut self.group, io_context);
        self.last = Some(roaming_task);
        Some((task, self.last_size))
    }

    fn poll(&mut self) {
        self.take_updates();
        self.poll();
    }

    fn backlog(&self) -> usize {
        let last = match &self.last {
            Some(_) => self.last_size - 1,
            None => 0,
        };
        last + self.events() + self.selector.backlog()
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
