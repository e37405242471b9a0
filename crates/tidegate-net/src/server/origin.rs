//! What the connections of one server have in common, and how they end together.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_exec::Placement;
use tidegate_promise::{Completion, Promise, promise};
use tidegate_sync::SignalBlock;

use crate::channel::{Channel, Shared};
use crate::group::NetGroup;
use crate::reactor;
use crate::roaming::{Roam, Update};

/// The event that tells handlers that their server is on its way out: finish what is under way
/// and close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draining;

/// How a drain went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainReport {
    /// Connections that were open when it began.
    pub open: usize,
    /// Peers of connections that had not ended at the deadline and were cut.
    pub cut: Vec<String>,
}

impl fmt::Display for DrainReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, cut) = (self.open, self.cut.len());
        write!(f, "{open} connections were open, {cut} of them were cut")
    }
}

/// What the connections of one server share.
#[derive(Debug, Default)]
pub(crate) struct Origin {
    live: AtomicUsize,
    accepted: AtomicU64,
    /// Completed when the last connection has gone.
    empty: Mutex<Option<Promise<()>>>,
}

impl Origin {
    pub(crate) fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    pub(crate) fn came(&self) {
        self.live.fetch_add(1, Ordering::Relaxed);
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn left(&self) {
        // ORDERING: AcqRel, so that of the last one to leave and the one who waits for it, at
        // least one sees the other: both go through the lock below as well.
        if self.live.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.tell_if_empty();
        }
    }

    fn tell_if_empty(&self) {
        let mut empty = self.empty.lock().unwrap_or_else(PoisonError::into_inner);
        // ORDERING: Acquire pairs with the AcqRel in `left`.
        let promise = if self.live.load(Ordering::Acquire) == 0 {
            empty.take()
        } else {
            None
        };
        drop(empty);
        if let Some(promise) = promise {
            let _ = promise.succeed(());
        }
    }

    /// Completes when there is no connection left.
    fn on_empty(&self) -> Completion<()> {
        let (promise, done) = promise();
        *self.empty.lock().unwrap_or_else(PoisonError::into_inner) = Some(promise);
        self.tell_if_empty();
        done
    }
}

/// Tells every connection of `origin` to finish, and cuts those that have not at the deadline.
pub(crate) fn drain(
    origin: &Arc<Origin>,
    group: &NetGroup<impl Placement>,
    deadline: Duration,
) -> Completion<DrainReport> {
    let (promise, done) = promise();
    let promise = promise.share();
    let open = origin.live();
    let cut = Arc::<Mutex<Vec<String>>>::default();
    let empty = origin.on_empty();
    for one in group.each() {
        let (mine, roam) = (Arc::clone(origin), one.roam.clone());
        let _ = one.run(move || {
            each_of(mine, roam, |channel| channel.fire_event(Draining));
        });
        let (mine, roam, cut) = (Arc::clone(origin), one.roam, Arc::clone(&cut));
        let _ = one.home.schedule(deadline, move || {
            each_of(mine, roam, move |channel| {
                let peer = channel.peer_addr();
                let peer = peer.map_or_else(|| "local".to_owned(), |peer| peer.to_string());
                cut.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(peer);
                drop(channel.close());
            });
        });
    }
    empty.finally(move |_| {
        let cut = std::mem::take(&mut *cut.lock().unwrap_or_else(PoisonError::into_inner));
        let _ = promise.try_succeed(DrainReport { open, cut });
    });
    done
}

/// Does `each` to the connections of `origin` on one loop: the current one, or that of `roam`.
fn each_of(
    origin: Arc<Origin>,
    roam: Option<Arc<Roam>>,
    mut each: impl FnMut(Channel) + Send + 'static,
) {
    let mut hear = move |channels: Vec<Arc<SignalBlock<Shared>>>| {
        for channel in channels {
            let own = channel.origin();
            if own.is_some_and(|own| Arc::ptr_eq(own, &origin)) {
                each(Channel::of(channel));
            }
        }
    };
    match roam {
        // A loop that is over has closed its channels.
        Some(roam) => drop(roam.push(Update::Channels(Box::new(hear)))),
        None => hear(reactor::channels()),
    }
}
