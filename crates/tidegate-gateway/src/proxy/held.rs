//! What a request holds at its server, and what it wants of it.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tidegate::isolate::{Cause, Entry, Verdict};
use tidegate::net::Channel;

use crate::balance::Lease;

/// What an attempt or a tunnel holds as long as its server is connected.
pub(super) struct Held {
    pub(super) admission: Admission,
    pub(super) lease: Lease,
}

/// The entry of an attempt or a tunnel. An attempt of a fallback has none.
///
/// The timeout of the command ends the entry of a request without a body. The time of a request with
/// a body may be used up by its client: such an entry has no timeout of its own, and the request says
/// which side was late.
pub(super) struct Admission {
    entry: Option<Entry>,
    lateness: Option<Arc<Lateness>>,
}

impl Admission {
    pub(super) fn new(entry: Option<Entry>, lateness: Option<Arc<Lateness>>) -> Self {
        Self { entry, lateness }
    }

    /// Reports how the attempt ended.
    pub(super) fn verdict(&self, verdict: Verdict) {
        if let Some(entry) = &self.entry {
            entry.verdict(verdict);
        }
    }

    /// Does the same, without deciding between two threads.
    #[inline]
    pub(super) fn verdict_alone(&mut self, is_success: bool) {
        if let Some(entry) = &mut self.entry {
            entry.verdict_alone(is_success);
        }
    }
}

impl Drop for Admission {
    #[inline]
    fn drop(&mut self) {
        if let Some(lateness) = self.lateness.take()
            && let Some(entry) = self.entry.take()
        {
            lateness.end(entry);
        }
    }
}

/// Which side of a request with a body has used up its time. Shared by the request, which decides, and
/// its admission, which reports it.
pub(super) struct Lateness {
    side: AtomicU8,
    limit: Duration,
}

/// A side of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client = 1,
    Server = 2,
}

impl Lateness {
    /// Nobody is late yet. `limit` is the time that an attempt has.
    pub(super) fn new(limit: Duration) -> Arc<Self> {
        Arc::new(Self {
            side: AtomicU8::new(0),
            limit,
        })
    }

    pub(super) fn set(&self, side: Side) {
        // Relaxed: the admission is dropped later on the same thread, or passed to another one.
        self.side.store(side as u8, Ordering::Relaxed);
    }

    /// Ends an entry: it has timed out if the server was late. The delay of a client says nothing
    /// about the server. An entry that has its verdict is only dropped.
    fn end(&self, entry: Entry) {
        match self.side.load(Ordering::Relaxed) {
            late if late == Side::Client as u8 => {
                entry.verdict(Verdict::Ignored);
            }
            late if late == Side::Server as u8 => {
                drop(entry.fail::<Infallible>(Cause::TimedOut(self.limit)));
            }
            _ => {}
        }
    }
}

/// The client's side of a tunnel that a request asks for.
pub(super) struct Wanted {
    pub(super) client: Channel,
    /// How long the tunnel may carry no byte.
    pub(super) idle: Duration,
}
