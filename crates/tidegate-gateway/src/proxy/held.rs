//! What a request holds at its server, and what it wants of it; which side has used its time.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use tidegate::isolate::{Cause, Entry, Verdict};
use tidegate::net::Channel;

use super::freed::Freed;
use super::step::Side;
use crate::balance::Lease;

/// What an attempt or a tunnel holds as long as its server is connected. The place is given back first:
/// the end of the admission may begin the next attempt.
pub(super) struct Held {
    pub(super) _lease: Lease,
    pub(super) admission: Admission,
}

/// The entry of an attempt or a tunnel.
///
/// The timeout of the command ends the entry of a request without a body. The time of a request with
/// a body may be used up by its client, and a fallback has what is left of it: such an entry has no
/// timeout of its own, and the request says which side was late. What the client has used is left out
/// of its time.
pub(super) struct Admission {
    entry: Option<Entry>,
    upload: Option<Arc<Watch>>,
}

impl Admission {
    pub(super) fn new(entry: Entry, upload: Option<Arc<Watch>>) -> Self {
        Self {
            entry: Some(entry),
            upload,
        }
    }

    /// Reports how the attempt ended, at the time that `now` returns.
    #[inline]
    pub(super) fn verdict(&mut self, verdict: impl Into<Verdict>, now: impl FnOnce() -> u64) {
        let Some(entry) = &mut self.entry else { return };
        match &self.upload {
            None => {
                entry.verdict_alone(verdict);
            }
            Some(upload) => upload.verdict(entry, verdict.into(), now()),
        }
    }

    /// Reports that there is no server for the attempt.
    pub(super) fn unserved(&self) {
        if let Some(entry) = &self.entry {
            entry.verdict_unsampled(None);
        }
    }

    /// Reports that the attempt says nothing about its server, not even how long it takes.
    pub(super) fn ignore(&self) {
        if let Some(entry) = &self.entry {
            entry.verdict_unsampled(Some(Verdict::Ignored));
        }
    }
}

impl Drop for Admission {
    #[inline]
    fn drop(&mut self) {
        if let Some(upload) = self.upload.take() {
            if let Some(entry) = self.entry.take() {
                upload.end(entry);
            }
            upload.freed.free();
        }
    }
}

/// The body of a request on its way to the server: how long the client has kept the server waiting for
/// it, and which side has used up the time of the attempt, or whether the client has left. Shared by the
/// request, which decides, and its admission, which reports it.
pub(super) struct Watch {
    side: AtomicU8,
    limit: Duration,
    /// How long the client was waited for, in nanoseconds.
    used: AtomicU64,
    /// Since when it is waited for; `NOT_WAITING` if it is not.
    since: AtomicU64,
    /// What follows the end of the admission.
    pub(super) freed: Freed,
}

const NOT_WAITING: u64 = u64::MAX;
/// The client has left: neither side is late.
const LEFT: u8 = 3;

// Relaxed: everything but the end runs on the loop of the request. The admission is dropped later on
// the same thread, or passed to another one.
impl Watch {
    /// Nobody is late yet. `limit` is the time that an attempt has.
    pub(super) fn new(limit: Duration) -> Arc<Self> {
        Arc::new(Self {
            side: AtomicU8::new(0),
            limit,
            used: AtomicU64::new(0),
            since: AtomicU64::new(NOT_WAITING),
            freed: Freed::default(),
        })
    }

    /// Says whether the request waits for its client from now on: the server has got all that came.
    pub(super) fn wait(&self, waits: bool, now: u64) {
        let since = if waits { now } else { NOT_WAITING };
        let before = self.since.swap(since, Ordering::Relaxed);
        if before != NOT_WAITING {
            let took = now.saturating_sub(before);
            self.used.fetch_add(took, Ordering::Relaxed);
        }
    }

    /// Says which side is late.
    pub(super) fn set_late(&self, side: Side, now: u64) {
        self.side.store(side as u8, Ordering::Relaxed);
        self.wait(self.waits(), now);
    }

    /// Returns `true` if the client is waited for.
    fn waits(&self) -> bool {
        self.since.load(Ordering::Relaxed) != NOT_WAITING
    }

    /// Reports how an attempt ended, with the server's own time.
    #[cold]
    fn verdict(&self, entry: &mut Entry, verdict: Verdict, now: u64) {
        let waits = self.waits();
        self.wait(waits, now);
        self.leave_out(entry);
        // A server that responds while the body is on its way may have waited for it, or not.
        match waits {
            true => entry.verdict_unsampled(Some(verdict)),
            false => entry.verdict_alone(verdict),
        };
    }

    /// Says that the client has left, unless a side was late before.
    pub(super) fn leave(&self) {
        let order = Ordering::Relaxed;
        let _ = self.side.compare_exchange(0, LEFT, order, order);
    }

    /// Returns how long the client was waited for, in nanoseconds.
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Ends an entry: it has timed out if the server was late. The delay of a client says nothing
    /// about the server. An entry that has its verdict is only dropped.
    fn end(&self, mut entry: Entry) {
        self.leave_out(&mut entry);
        match self.side.load(Ordering::Relaxed) {
            late if late == Side::Client as u8 => {
                entry.verdict_unsampled(Some(Verdict::Ignored));
            }
            late if late == Side::Server as u8 => {
                drop(entry.fail::<Infallible>(Cause::TimedOut(self.limit)));
            }
            LEFT => entry.abandon(),
            _ => {}
        }
    }

    /// Leaves the client's time out of the time of the entry, once.
    fn leave_out(&self, entry: &mut Entry) {
        let used = self.used.swap(0, Ordering::Relaxed);
        entry.leave_out(Duration::from_nanos(used));
    }
}

/// The client's side of a tunnel that a request asks for.
pub(super) struct Wanted {
    pub(super) client: Channel,
    /// How long the tunnel may carry no byte.
    pub(super) idle: Duration,
    /// The protocols that the server is asked for, as a value of `Upgrade`.
    pub(super) protocols: Vec<u8>,
}
