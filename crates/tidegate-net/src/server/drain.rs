//! How the connections of one server end together.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_core::{Parker, ThreadBuilder};
use tidegate_loop::Placement;
use tidegate_promise::{Completion, SharedPromise, promise};

use crate::channel::{Channel, Origin};
use crate::group::NetGroup;
use crate::reactor::{self, Roam, SourceHandle, Update};

/// The event that tells handlers that their server is on its way out: finish what is under way
/// and close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draining;

/// How long after the deadline of a drain handlers may take to return before the report is made
/// without them.
pub const DRAIN_GRACE: Duration = Duration::from_millis(500);

/// How a drain went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainReport {
    /// Connections that were open when it began, also those that were accepted only then.
    pub open: usize,
    /// Peers of connections that had not ended at the deadline and were cut. Those on a pinned loop
    /// that a handler holds up are not named: nobody else may look at them.
    pub cut: Vec<String>,
    /// Connections whose handlers had not even returned [`DRAIN_GRACE`] after the deadline: they end
    /// when those return.
    pub held: usize,
}

impl fmt::Display for DrainReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, cut) = (self.open, self.cut.len());
        write!(f, "{open} connections were open, {cut} of them were cut")?;
        match self.held {
            0 => Ok(()),
            held => write!(f, ", {held} are held by handlers that do not return"),
        }
    }
}

/// A connection of `origin` has come to its loop: if that was after the others were told of a drain, or
/// were cut, it is told, or cut.
pub(super) fn welcome(origin: &Origin, channel: Channel) {
    if origin.is_over() {
        channel.cut();
        return;
    }
    // Whoever is on its loop in time is found there; whoever comes later sees this, since the
    // loop's queue lies between.
    if origin.is_draining() {
        tell_of_drain(channel);
    }
}

/// Tells a connection of a drain, once.
fn tell_of_drain(channel: Channel) {
    if channel.shared().hears_first_of_drain() {
        channel.fire_event(Draining);
    }
}

/// Tells every connection of `origin` to finish, and cuts those that have not at the deadline.
pub(crate) fn drain(
    origin: &Arc<Origin>,
    group: &NetGroup<impl Placement>,
    deadline: Duration,
) -> Completion<DrainReport> {
    let (promise, done) = promise();
    // It begins here: nothing can call the `Draining` events back.
    promise.set_uncancellable();
    let promise = promise.share();
    let (open, accepted) = (origin.live(), origin.accepted());
    let cut = Arc::<Mutex<Vec<String>>>::default();
    let empty = origin.on_empty();
    origin.begin_drain();
    for one in group.each() {
        let (mine, roam) = (Arc::clone(origin), one.roam.clone());
        let _ = one.run(move || {
            each_of(mine, roam, tell_of_drain);
        });
        let (mine, roam, cut) = (Arc::clone(origin), one.roam, Arc::clone(&cut));
        let _ = one.home.schedule(deadline, move || {
            mine.set_over();
            each_of(mine, roam, move |channel| {
                let peer = channel.peer_addr();
                let peer = peer.map_or_else(|| "local".to_owned(), |peer| peer.to_string());
                cut.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(peer);
                channel.cut();
            });
        });
    }
    let drain = Arc::new(Drain {
        origin: Arc::clone(origin),
        open,
        accepted,
        cut,
        promise,
    });
    let watch = Parker::new();
    drain.watch(&watch, group, deadline);
    empty.finally(move |_| {
        drain.report(0);
        watch.unpark();
    });
    done
}

/// A drain that is going on.
struct Drain {
    origin: Arc<Origin>,
    /// Connections that were open when it began, and all that had been accepted by then.
    open: usize,
    accepted: u64,
    cut: Arc<Mutex<Vec<String>>>,
    promise: SharedPromise<DrainReport>,
}

impl Drain {
    /// Makes the report; only the first one counts.
    fn report(&self, held: usize) {
        let since = self.origin.accepted() - self.accepted;
        let open = self.open + usize::try_from(since).unwrap_or(0);
        let cut = std::mem::take(&mut *self.cut.lock().unwrap_or_else(PoisonError::into_inner));
        let _ = self.promise.try_succeed(DrainReport { open, cut, held });
    }

    /// Starts the thread that makes the report when handlers do not return in time: no loop can, since
    /// each may be the one that such a handler holds up.
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
        let ends = clock.deadline(deadline.saturating_add(DRAIN_GRACE));
        // Without that thread the report waits for them; everything else works.
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

/// Does `each` to the connections of `origin` on one loop: the current one, or that of `roam`.
fn each_of(
    origin: Arc<Origin>,
    roam: Option<Arc<Roam>>,
    mut each: impl FnMut(Channel) + Send + 'static,
) {
    let mut hear = move |handles: Vec<Arc<dyn SourceHandle>>| {
        for channel in handles.into_iter().filter_map(Channel::of_source) {
            let own = channel.shared().origin();
            if own.is_some_and(|own| Arc::ptr_eq(own, &origin)) {
                each(channel);
            }
        }
    };
    match roam {
        // A loop that is over has closed its channels.
        Some(roam) => drop(roam.push(Update::Handles(Box::new(hear)))),
        None => hear(reactor::handles()),
    }
}
