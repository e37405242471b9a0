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
    pub(super) counters: Arc<Counters>,
    /// Has the user-defined sources.
    pub(super) inbox: SharedInbox,
    /// The id of the reactor, if the loop is a pinned one.
    pub(super) pinned: Option<u64>,
    /// Has the counters of the tasks, if the loop is a roaming one. It has a handle to the loop, which
    /// owns a watch: a strong reference would keep the loop alive for ever.
    pub(super) roam: Weak<RoamingShared>,
}

impl IoWatch {
    /// Returns the current values.
    pub(crate) fn metrics(&self) -> IoMetrics {
        let mut sum = IoMetrics::default();
        self.counters.add_to(&mut sum);
        if let Some(roam) = self.roam.upgrade() {
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
}

impl DriverView for IoWatch {
    /// Lists the channels too if this thread is the loop's.
    fn dump(&self) -> Dump {
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
}
