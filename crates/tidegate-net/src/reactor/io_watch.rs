//! The counters of a loop with I/O, for other threads.

use std::sync::{Arc, Weak};

use tidegate_core::Dump;
use tidegate_loop::internal::DriverView;

use super::pinned;
use super::roaming::RoamingShared;
use crate::metrics::{Counters, IoMetrics};
use crate::source::SharedInbox;

/// A view of the counters of a [`PollDriver`](super::PollDriver) or a `RoamingDriver`.
#[derive(Clone)]
pub(crate) struct IoWatch {
    counters: Arc<Counters>,
    /// Has the user-defined sources.
    inbox: SharedInbox,
    /// The id of the reactor, if the loop is a pinned one.
    pinned: Option<u64>,
    /// Has the counters of the tasks, if the loop is a roaming one.
    roam: Option<Arc<RoamingShared>>,
}

impl IoWatch {
    pub(super) fn of_pinned(counters: Arc<Counters>, inbox: &SharedInbox, id: u64) -> Self {
        Self {
            counters,
            inbox: Arc::clone(inbox),
            pinned: Some(id),
            roam: None,
        }
    }

    pub(super) fn of_roaming(
        counters: Arc<Counters>,
        inbox: &SharedInbox,
        roam: Arc<RoamingShared>,
    ) -> Self {
        Self {
            counters,
            inbox: Arc::clone(inbox),
            pinned: None,
            roam: Some(roam),
        }
    }

    /// Returns the current values.
    pub(crate) fn metrics(&self) -> IoMetrics {
        let mut sum = IoMetrics::default();
        self.counters.add_to(&mut sum);
        if let Some(roam) = &self.roam {
            roam.each_counters(|more| more.add_to(&mut sum));
            sum.wakeups = roam.wakeups();
        }
        sum.registered += self.inbox.source_count();
        sum
    }

    /// Returns the counters and the user-defined sources for a dump, without channels.
    pub(super) fn describe(&self) -> Dump {
        let now = self.metrics();
        let dump = Dump::new("reactor", "")
            .fact("registered", now.registered)
            .fact("polls", now.polls)
            .fact("poll_failures", now.poll_failures)
            .fact("events", now.events)
            .fact("accepted", now.accepted)
            .fact("reads", now.reads)
            .fact("read_bytes", now.read_bytes)
            .fact("writes", now.writes)
            .fact("written_bytes", now.written_bytes);
        self.inbox.dump(dump)
    }

    /// Returns the same, with the channels if this thread is the loop's.
    pub(super) fn dump(&self) -> Dump {
        let dump = self.describe();
        let dump = match self.pinned {
            Some(id) => pinned::dump(id, dump),
            None => Err(dump),
        };
        dump.unwrap_or_else(|dump| {
            dump.fact(
                "sources_not_listed",
                "only their loop can list them; `dump_within` and `dump_async` ask it",
            )
        })
    }

    /// Returns a view that the loop itself may own.
    pub(super) fn into_view(mut self) -> Arc<dyn DriverView> {
        let roam = self.roam.take().as_ref().map(Arc::downgrade);
        Arc::new(LoopView { watch: self, roam })
    }
}

/// A watch that belongs to its loop. The shared state of a roaming loop has a handle to the loop, so
/// a strong reference to it would keep the loop alive for ever.
struct LoopView {
    watch: IoWatch,
    roam: Option<Weak<RoamingShared>>,
}

impl DriverView for LoopView {
    fn dump(&self) -> Dump {
        let mut watch = self.watch.clone();
        watch.roam = self.roam.as_ref().and_then(Weak::upgrade);
        watch.dump()
    }
}
