//! Stands in for `source` without the feature `sources`: a selector that never has a source.

use std::io;
use std::sync::Arc;

use tidegate_core::{Dump, Task};

use crate::sys::{Change, RawFd, Ready, Token};

/// Changes what the poller of the loop watches.
pub(crate) trait Control {
    /// See [`Poller::control`](crate::sys::Poller::control).
    fn control(&mut self, descriptor: RawFd, token: Token, change: Change) -> io::Result<()>;
}

/// The inbox of a selector, shared with other threads.
pub(crate) type SharedInbox = Arc<Inbox>;

#[derive(Debug)]
pub(crate) struct Inbox;

impl Inbox {
    pub(crate) fn set_home<H, S>(&self, _: &H, _: S) {}

    pub(crate) fn source_count(&self) -> u64 {
        0
    }

    pub(crate) fn dump(&self, dump: Dump) -> Dump {
        dump
    }
}

/// The reactor of a loop, as other threads see it.
pub(crate) struct ReactorHandle;

impl ReactorHandle {
    pub(crate) fn new(_: &SharedInbox) -> Self {
        Self
    }
}

/// The user-defined sources of a loop: there are none.
pub(crate) struct Selector {
    inbox: SharedInbox,
}

impl Selector {
    pub(crate) fn new() -> Self {
        Self {
            inbox: Arc::new(Inbox),
        }
    }

    pub(crate) fn inbox(&self) -> &SharedInbox {
        &self.inbox
    }

    pub(crate) fn produce<C: Control>(&mut self, _: &mut C) -> Option<Task> {
        None
    }

    pub(crate) fn polled(&mut self, _: Vec<Ready>) {}

    pub(crate) fn is_quiet(&self) -> bool {
        true
    }

    pub(crate) fn expects_poll(&self) -> bool {
        false
    }

    pub(crate) fn comes_before_poll(&self) -> bool {
        false
    }

    pub(crate) fn has_untaken(&self) -> bool {
        false
    }

    pub(crate) fn backlog(&self) -> usize {
        0
    }

    pub(crate) fn is_empty(&self) -> bool {
        true
    }

    pub(crate) fn outstanding(&self) -> Vec<String> {
        Vec::new()
    }

    pub(crate) fn begin_close<C: Control>(&mut self, _: &mut C) -> bool {
        true
    }

    pub(crate) fn close<C: Control>(&mut self, _: &mut C) {}
}
