//! Ends the connections of one server together: announces the end, notifies them, and cuts those
//! that are left.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_core::internal::lock;
use tidegate_core::{Clock, Parker, ThreadBuilder};
use tidegate_loop::Placement;
use tidegate_promise::{Completion, SharedPromise, promise};

use crate::awaited::result;
use crate::channel::{Channel, ChannelRequest, InEvent, ServerConnections, TimedWork, UserEvent};
use crate::group::{LoopTarget, NetGroup};
use crate::reactor::{self, IoHandle, RoamingShared, Update};

/// How many turns a channel reads before its handlers are notified of a drain.
const MOST_READING: u8 = 8;

/// How long a drain waits after its deadline for handlers that have not returned.
pub(super) const GRACE: Duration = Duration::from_millis(500);

/// The event that notifies handlers that their server is shutting down. They should finish their
/// work and close the channel.
///
/// A channel that reads on its own has read before what the peer had sent, unless that is more than
/// some turns can read. Messages that a handler such as `MessageLimit` or `FlowControl` holds back
/// come after the event. A client that is within its TLS handshake has sent nothing yet: the event
/// comes before the end of the handshake and before its first bytes. Connections are notified one
/// after the other, so what one passes on to another may find that one closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draining;

/// The event that notifies handlers that their server is going to shut down, and accepts
/// connections until then: see [`Server::announce_drain`](crate::Server::announce_drain). They
/// should serve what comes, and make the peer use another connection for what comes later. A
/// [`Draining`] event follows when the server shuts down.
///
/// A connection that is accepted after the announcement gets the event when it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainAnnounced;

/// The result of a drain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainReport {
    /// The number of connections that were open when the drain began, including those that were
    /// accepted after that.
    pub open: usize,
    /// The peers of connections that were still open at the deadline and were closed by the drain.
    /// If a handler blocks a pinned event loop, the connections of that loop are missing here: no
    /// other thread may access them.
    pub closed_at_deadline: Vec<String>,
    /// The number of connections whose handlers had not returned
    /// [`Server::DRAIN_GRACE`](crate::Server::DRAIN_GRACE) after the deadline. They end when the
    /// handlers return.
    pub still_running: usize,
}

impl fmt::Display for DrainReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, closed) = (self.open, self.closed_at_deadline.len());
        let were = |number| if number == 1 { "was" } else { "were" };
        let s = if open == 1 { "" } else { "s" };
        write!(
            f,
            "{open} connection{s} {} open, {closed} {} closed at the deadline",
            were(open),
            were(closed)
        )?;
        match self.still_running {
            0 => Ok(()),
            running => write!(f, ", the handlers of {running} have not returned"),
        }
    }
}

/// Handles a connection of `origin` that has reached its event loop. If a drain has begun, the
/// connection is notified; if its deadline has passed, the connection is cut.
pub(super) fn check_drain(origin: &ServerConnections, channel: Channel) {
    if origin.is_over() {
        channel.force_close();
        return;
    }
    // A connection that reached its event loop before the task of the drain is found by that task.
    // A later one sees this flag, because the queue of the loop orders the two.
    if origin.is_draining() {
        notify_of_drain(&channel);
    } else if origin.is_announced() {
        notify_of_announcement(&channel);
    }
}

/// Fires the `DrainAnnounced` event on a connection, once, unless the drain itself has reached it.
fn notify_of_announcement(channel: &Channel) {
    if channel.shared().mark_announced() {
        channel.fire_event(DrainAnnounced);
    }
}

/// Fires the `Draining` event on a connection, once. Before that, the channel reads what has arrived,
/// even if the poller has not reported it yet.
fn notify_of_drain(channel: &Channel) {
    if channel.shared().mark_drained() {
        let event = InEvent::User(UserEvent::new(Draining));
        channel.post(ChannelRequest::ReadThenFire(event, MOST_READING));
    }
}

/// Notifies every connection of `origin` that its server is going to drain. Only the first call has
/// an effect.
pub(super) fn announce(origin: &Arc<ServerConnections>, group: &NetGroup<impl Placement>) {
    if origin.announce() {
        return;
    }
    for one in group.each() {
        let (mine, roam) = (Arc::clone(origin), one.roam.clone());
        run_on(&one, move || each_of(mine, roam, notify_of_announcement));
    }
}

/// Calls `begin` after `notice`, or as soon as the server has neither connections nor listeners.
/// Returns a completion with the report of the drain that `begin` starts.
///
/// A thread of its own waits, since a handler may block any event loop.
pub(super) fn begin_after(
    notice: Duration,
    clock: Clock,
    origin: &ServerConnections,
    begin: impl FnOnce() -> Completion<DrainReport> + Send + 'static,
) -> Completion<DrainReport> {
    let (promise, done) = promise();
    // The announcement cannot be taken back.
    promise.set_uncancellable();
    let ends = clock.deadline(notice);
    let (parker, over) = (Parker::new(), Arc::<AtomicBool>::default());
    let (waker, ended) = (parker.clone(), Arc::clone(&over));
    origin.on_empty().finally(move |_| {
        // ORDERING: Release pairs with the Acquire load of the thread below, which then finds the
        // server empty.
        ended.store(true, Ordering::Release);
        waker.unpark();
    });
    let next = Arc::new(Mutex::new(Some((begin, promise))));
    let start = move || {
        let next = lock(&next).take();
        if let Some((begin, promise)) = next {
            begin().finally(move |outcome| drop(promise.complete(result(outcome).cloned())));
        }
    };
    let now = start.clone();
    let started = ThreadBuilder::new("tidegate-drain").spawn(move || {
        // ORDERING: Acquire pairs with the Release store above.
        while clock.nanos() < ends && !over.load(Ordering::Acquire) {
            clock.park_until(&parker, Some(ends));
        }
        start();
    });
    if started.is_err() {
        // Without a thread that waits, the drain begins now: a server that never ends is worse.
        now();
    }
    done
}

/// Notifies every connection of `origin` that it should finish, and cuts the ones still open at the
/// deadline. `Duration::MAX` is no deadline: neither a timer nor a thread waits for it.
pub(crate) fn drain(
    origin: &Arc<ServerConnections>,
    group: &NetGroup<impl Placement>,
    deadline: Duration,
) -> Completion<DrainReport> {
    let (promise, done) = promise();
    // The drain begins here and cannot be cancelled: the `Draining` events cannot be taken back.
    promise.set_uncancellable();
    let promise = promise.share();
    let (open, admitted) = (origin.live(), origin.admitted());
    let cut = Arc::<Mutex<Vec<String>>>::default();
    let empty = origin.on_empty();
    let mut timers = Vec::new();
    origin.begin_drain();
    for one in group.each() {
        let (mine, roam) = (Arc::clone(origin), one.roam.clone());
        run_on(&one, move || each_of(mine, roam, notify_of_drain));
        if deadline == Duration::MAX {
            continue;
        }
        let (mine, roam, cut) = (Arc::clone(origin), one.roam, Arc::clone(&cut));
        let end: TimedWork = Box::new(move || {
            mine.set_over();
            each_of(mine, roam, move |channel: &Channel| {
                lock(&cut).push(channel.shared().peer().to_string());
                channel.force_close();
            });
        });
        timers.extend(one.home.schedule(deadline, end));
    }
    let drain = Arc::new(Drain {
        origin: Arc::clone(origin),
        open,
        admitted,
        cut,
        promise,
    });
    let watch = Parker::new();
    if deadline < Duration::MAX {
        drain.watch(&watch, group, deadline);
    }
    empty.finally(move |_| {
        drain.report(0);
        watch.unpark();
        for timer in timers {
            timer.cancel();
        }
    });
    done
}

/// A drain in progress.
struct Drain {
    origin: Arc<ServerConnections>,
    /// The number of open connections when the drain began, and of all connections admitted by
    /// then.
    open: usize,
    admitted: u64,
    cut: Arc<Mutex<Vec<String>>>,
    promise: SharedPromise<DrainReport>,
}

impl Drain {
    /// Completes the drain with a report. Only the first call has an effect.
    fn report(&self, held: usize) {
        let since = self.origin.admitted().saturating_sub(self.admitted);
        let open = self.open + usize::try_from(since).unwrap_or(0);
        let cut = std::mem::take(&mut *lock(&self.cut));
        let _ = self.promise.try_succeed(DrainReport {
            open,
            closed_at_deadline: cut,
            still_running: held,
        });
    }

    /// Starts the thread that makes the report if handlers do not return in time. An event loop
    /// cannot do it, because such a handler may block any of them.
    fn watch(
        self: &Arc<Self>,
        parker: &Parker,
        group: &NetGroup<impl Placement>,
        deadline: Duration,
    ) {
        let (drain, parker) = (Arc::clone(self), parker.clone());
        let Some(clock) = group.loops().iter().next().map(|one| one.clock().clone()) else {
            return;
        };
        let ends = clock.deadline(deadline.saturating_add(GRACE));
        // If the thread cannot be started, the report waits for the handlers. Everything else
        // works.
        let _ = ThreadBuilder::new("tidegate-drain").spawn(move || {
            while !drain.promise.is_done() {
                if clock.nanos() >= ends {
                    return drain.report(drain.origin.live());
                }
                clock.park_until(&parker, Some(ends));
            }
        });
    }
}

/// Runs `work` on an event loop, also if its queue is full, unless the loop shuts down meanwhile. A loop
/// that accepts no more tasks closes its connections anyway.
fn run_on<P: Placement>(one: &LoopTarget<P>, work: impl FnOnce() + Send + 'static) {
    if one.home.is_shutdown() {
        // Its refusal would be reported as a problem.
        return;
    }
    if let Err(refused) = one.run(work) {
        let task = refused.into_inner();
        // A timer needs no room in the queue.
        let work: TimedWork = Box::new(move || task.run());
        let _ = one.home.schedule(Duration::ZERO, work);
    }
}

/// Calls `each` with the connections of `origin` on one event loop: the current one, or that of
/// `roam`. The memory of those that end meanwhile is freed after the last one has ended.
fn each_of(
    origin: Arc<ServerConnections>,
    roam: Option<Arc<RoamingShared>>,
    mut each: impl FnMut(&Channel) + Send + 'static,
) {
    let mut visit = move |handles: Vec<Arc<dyn IoHandle>>| {
        let channels = handles.into_iter().filter_map(Channel::of_source);
        let channels: Vec<Channel> = channels.collect();
        let is_own = |channel: &Channel| {
            let own = channel.shared().origin();
            own.is_some_and(|own| Arc::ptr_eq(own, &origin))
        };
        channels
            .iter()
            .filter(|one| is_own(one))
            .for_each(&mut each);
    };
    match roam {
        // An event loop that has ended has closed its channels.
        Some(roam) => drop(roam.push(Update::Handles(Box::new(visit)))),
        None => visit(reactor::handles()),
    }
}
